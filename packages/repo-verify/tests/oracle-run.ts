/** Compares verification with the reference implementation, over random commits of random repositories. */
import assert from 'node:assert/strict'
import { P256Keypair, Secp256k1Keypair } from '@atproto/crypto'
import type { Did } from '@tributary/protocol'
import {
  CheckedTrees,
  cidToDigest,
  digestToCid,
  parseDidKey,
  readRepoCar,
  verifyEvent,
} from '../src/index.ts'
import { commitFrame } from './frame-builder.ts'
import { create, OracleRepo, randomWrites, seededRandom } from './oracle-repo.ts'

export interface OracleRun {
  /** Commits checked, spread over the repositories. */
  commits: number
  seed: number
  /** Records that each repository begins with. */
  sizes: number[]
  /** Operations of one commit, at most. */
  writesMax: number
}

/** @throws AssertionError naming the seed and the commit. */
export async function checkAgainstOracle(run: OracleRun): Promise<{ operations: number }> {
  const random = seededRandom(run.seed)
  const checkedTrees = new CheckedTrees()
  let operations = 0
  for (const [i, size] of run.sizes.entries()) {
    const keypair = i % 2 === 0 ? await Secp256k1Keypair.create() : await P256Keypair.create()
    const key = parseDidKey(keypair.did())
    assert.ok(key)
    const repo = await OracleRepo.create(
      `did:plc:${'abcdefghijklmnopqrstuvwx'.slice(i)}${'2'.repeat(i)}`,
      keypair,
      Array.from({ length: size }, (_, n) => create(random, n)),
    )
    for (let n = 0; n < run.commits / run.sizes.length; n++) {
      const where = `seed ${run.seed}, repository ${i}, commit ${n}`
      const commit = await repo.commit(randomWrites(repo, random, run.writesMax))
      const options = { key, nowMs: Date.now(), strict: true }
      const event = verifyEvent(commitFrame(commit), random(2) === 0 ? options : { ...options, checkedTrees })
      assert.ok(event.ok && event.kind === 'commit', `${where}: ${JSON.stringify(event)}`)
      assert.equal(digestToCid(event.data), commit.data, where)
      assert.deepEqual(event.waived, [])
      operations += event.ops.length

      // Without one of its operations the same commit must not pass.
      const dropped = commit.ops.toSpliced(random(commit.ops.length), 1)
      const refusal = verifyEvent(commitFrame({ ...commit, ops: dropped }), options)
      assert.equal(refusal.ok || refusal.reason, 'invalid-mst', where)
    }
    const whole = readRepoCar(await repo.car(), { did: repo.did as Did, key, nowMs: Date.now() }) // a DID by construction
    assert.ok(whole.ok, JSON.stringify(whole))
    assert.deepEqual(
      whole.records.map(({ collection, rkey }) => `${collection}/${rkey}`),
      repo.paths.toSorted(),
    )
    assert.equal(cidToDigest(digestToCid(whole.data)), whole.data)
  }
  return { operations }
}
