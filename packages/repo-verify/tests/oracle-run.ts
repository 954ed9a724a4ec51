/** Compares verification with the reference implementation, over random commits of random repositories. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { P256Keypair, Secp256k1Keypair, type Keypair } from '@atproto/crypto'
import type { Did } from '@tributary/protocol'
import {
  CheckedTrees,
  cidToDigest,
  digestToCid,
  parseDidKey,
  readRepoCar,
  verifyEvent,
  type SigningKey,
} from '../src/index.ts'
import { commitFrame } from './frame-builder.ts'
import { OracleRepo, type OracleCommit } from './oracle-repo.ts'
import { create, randomWrites, seededRandom, type Random } from './oracle-writes.ts'

export interface OracleRun {
  /** Commits checked, spread over the repositories. */
  commits: number
  seed: number
  /** Records that each repository begins with. */
  sizes: readonly number[]
  /** Operations of one commit, at most. */
  writesMax: number
}

export interface OracleCounts {
  operations: number
  /** Commits that leave a tree without records. */
  emptied: number
  /** Commits that leave a tree whose root has no keys. */
  bare: number
  /** Commits whose `prevData` names such a root. */
  bareBefore: number
}

/** @throws AssertionError naming the seed and the commit. */
export async function checkAgainstOracle(run: OracleRun): Promise<OracleCounts> {
  const random = seededRandom(run.seed)
  const checkedTrees = new CheckedTrees()
  const counts: OracleCounts = { operations: 0, emptied: 0, bare: 0, bareBefore: 0 }
  for (const [i, size] of run.sizes.entries()) {
    const keypair = await keypairOf(`${run.seed}/${i}`, i)
    const key = parseDidKey(keypair.did())
    assert.ok(key)
    const did = `did:plc:${'abcdefghijklmnopqrstuvwx'.slice(i)}${'2'.repeat(i)}` as Did // a DID by construction
    const records = Array.from({ length: size }, (_, n) => create(random, n, size))
    const repo = await OracleRepo.create(did, keypair, records)
    for (let n = 0; n < run.commits / run.sizes.length; n++) {
      const where = `seed ${run.seed}, repository ${i}, commit ${n}`
      const wasBare = await repo.hasBareRoot()
      const givenUp = random(4) === 0 ? [create(random, run.writesMax, 0)] : []
      const commit = await repo.commit(randomWrites(repo.paths, random, run.writesMax), givenUp)
      checkCommit(commit, { key, random, checkedTrees, where })
      counts.operations += commit.ops.length
      counts.emptied += Number(repo.paths.length === 0)
      counts.bare += Number(await repo.hasBareRoot())
      counts.bareBefore += Number(wasBare)
      if (repo.paths.length < 100 && random(10) === 0) await checkWhole(repo, did, key, where)
    }
    await checkWhole(repo, did, key, `seed ${run.seed}, repository ${i}`)
  }
  return counts
}

async function keypairOf(text: string, i: number): Promise<Keypair> {
  const secret = hash('sha256', text)
  return i % 2 === 0 ? await Secp256k1Keypair.import(secret) : await P256Keypair.import(secret)
}

interface Checking {
  key: SigningKey
  random: Random
  checkedTrees: CheckedTrees
  where: string
}

function checkCommit(commit: OracleCommit, { key, random, checkedTrees, where }: Checking): void {
  const options = { key, nowMs: Date.now(), strict: true }
  const event = verifyEvent(commitFrame(commit), random(2) === 0 ? options : { ...options, checkedTrees })
  assert.ok(event.ok && event.kind === 'commit', `${where}: ${JSON.stringify(event)}`)
  assert.equal(digestToCid(event.data), commit.data, where)
  assert.deepEqual(event.waived, [])

  // Without one of its operations the same commit must not pass.
  const dropped = commit.ops.toSpliced(random(commit.ops.length), 1)
  const refusal = verifyEvent(commitFrame({ ...commit, ops: dropped }), options)
  assert.equal(refusal.ok || refusal.reason, 'invalid-mst', where)
}

async function checkWhole(repo: OracleRepo, did: Did, key: SigningKey, where: string): Promise<void> {
  const whole = readRepoCar(await repo.car(), { did, key, nowMs: Date.now() })
  assert.ok(whole.ok, `${where}: ${JSON.stringify(whole)}`)
  assert.deepEqual(
    whole.records.map(({ collection, rkey }) => `${collection}/${rkey}`),
    repo.paths.toSorted(),
    where,
  )
  assert.equal(cidToDigest(digestToCid(whole.data)), whole.data)
}
