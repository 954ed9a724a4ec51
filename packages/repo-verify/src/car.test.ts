import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { blockAt, readCar } from './car.ts'
import { cidToDigest, digestToCid } from './digest.ts'

interface CarFixture {
  root: string
  blocks: { cid: string; bytes: string }[]
  car: string
}

const fixtures = JSON.parse(
  readFileSync(new URL('../vectors/interop/car-file-fixtures.json', import.meta.url), 'utf8'),
) as CarFixture[] // our own file

test('interop: CAR files read as their root and blocks', () => {
  for (const { root, blocks, car } of fixtures) {
    const bytes = Buffer.from(car, 'base64')
    const read = readCar(bytes, 0, bytes.length)
    assert.equal(digestToCid(read.root), root)
    const found = Array.from(read.blocks, ([digest, { start, end }]) => [
      digestToCid(digest),
      bytes.toString('hex', start, end),
    ])
    assert.deepEqual(
      new Map(found as [string, string][]), // pairs as they stand
      new Map(blocks.map((block) => [block.cid, Buffer.from(block.bytes, 'base64').toString('hex')])),
    )
    for (const { start } of read.blocks.values()) {
      assert.deepEqual(blockAt(read, start - 32)?.start, start)
    }
  }
})

test('texts that are no CID of a repository have no digest', () => {
  const [cid] = fixtures.map(({ root }) => root)
  assert.ok(cid && cidToDigest(cid))
  for (const text of [
    '',
    cid.slice(1),
    `${cid}a`,
    cid.replace('bafyrei', 'bafkrei'),
    cid.replace(/.$/, '7'),
    cid.toUpperCase(),
  ]) {
    assert.equal(cidToDigest(text), undefined, text)
  }
})
