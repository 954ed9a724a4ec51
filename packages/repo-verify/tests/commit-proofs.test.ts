import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { MemoryBlockstore, MST } from '@atproto/repo'
import { parseCid } from '@atproto/lex-data'
import { readCar } from '../src/car.ts'
import { cidToDigest, digestToCid } from '../src/digest.ts'
import { MstTree } from '../src/mst-tree.ts'
import { refusing } from '../src/refusal.ts'
import { carOf, type CarBlock } from './frame-builder.ts'

interface ProofFixture {
  comment: string
  leafValue: string
  keys: string[]
  adds: string[]
  dels: string[]
  rootBeforeCommit: string
  rootAfterCommit: string
  blocksInProof: string[]
}

const fixtures = JSON.parse(
  readFileSync(new URL('../vectors/interop/commit-proof-fixtures.json', import.meta.url), 'utf8'),
) as ProofFixture[] // our own file

for (const fixture of fixtures) {
  test(`interop: ${fixture.comment} inverts with the blocks of its proof`, async () => {
    const proof = await proofBlocks(fixture)
    assert.equal(invert(fixture, proof), fixture.rootBeforeCommit)
    // With less than the proof the outcome is either the same or none.
    for (const left of proof) {
      const outcome = invert(
        fixture,
        proof.filter((block) => block !== left),
      )
      assert.ok(outcome === fixture.rootBeforeCommit || outcome === 'missing-block', outcome)
    }
  })
}

/** The blocks of the proof, out of the tree that the reference implementation builds. */
async function proofBlocks(fixture: ProofFixture): Promise<CarBlock[]> {
  const storage = new MemoryBlockstore()
  let tree = await MST.create(storage)
  const keys = [...fixture.keys, ...fixture.adds].filter((key) => !fixture.dels.includes(key))
  for (const key of keys) tree = await tree.add(key, parseCid(fixture.leafValue))
  const { root, blocks } = await tree.getUnstoredBlocks()
  assert.equal(root.toString(), fixture.rootAfterCommit)
  const all = blocks.entries().filter(({ cid }) => fixture.blocksInProof.includes(cid.toString()))
  assert.equal(all.length, fixture.blocksInProof.length)
  return all.map(({ cid, bytes }) => ({ cid: cid.bytes, bytes }))
}

function invert(fixture: ProofFixture, blocks: CarBlock[]): string {
  const car = carOf([Buffer.from([1, 0x71, 0x12, 0x20, ...Buffer.alloc(32)])], blocks)
  const digests = [fixture.rootAfterCommit, fixture.leafValue].map((cid) =>
    Buffer.from(cidToDigest(cid) ?? '', 'latin1'),
  )
  const bytes = Buffer.concat([car, ...digests])
  const outcome = refusing(() => {
    const tree = new MstTree(readCar(bytes, 0, car.length), car.length)
    for (const key of fixture.dels) tree.insert(key, car.length + 32)
    for (const key of fixture.adds) assert.equal(tree.remove(key), cidToDigest(fixture.leafValue))
    return tree.digest()
  })
  return typeof outcome === 'string' ? digestToCid(outcome) : outcome.reason
}
