/** One good commit with a create, an update and a delete, in parts that a test can alter before it becomes a frame. */
import assert from 'node:assert/strict'
import { Secp256k1Keypair } from '@atproto/crypto'
import { readCarWithRoot, WriteOpAction } from '@atproto/repo'
import type { Did } from '@tributary/protocol'
import { parseDidKey, type SigningKey, type VerifyOptions } from '../src/index.ts'
import { blockOf, carOf, type CarBlock } from './frame-builder.ts'
import { OracleRepo, type OracleCommit } from './oracle-repo.ts'
import { create, seededRandom } from './oracle-writes.ts'

export const sampleDid = 'did:plc:abcdefghijklmnopqrstuvwx' as Did // a DID as it stands

export interface SampleCommit {
  keypair: Secp256k1Keypair
  key: SigningKey
  options: VerifyOptions
  commit: OracleCommit
  /** The blocks of its CAR: the commit first. */
  blocks: CarBlock[]
}

export async function sampleCommit(): Promise<SampleCommit> {
  const keypair = await Secp256k1Keypair.create()
  const key = parseDidKey(keypair.did())
  assert.ok(key)
  const random = seededRandom(3)
  const repo = await OracleRepo.create(sampleDid, keypair)
  await repo.commit(Array.from({ length: 60 }, (_, i) => create(random, i, i)))
  const [updated, deleted] = repo.paths.map(
    (path) => path.split('/') as [`${string}.${string}.${string}`, string],
  ) // made by `create`
  assert.ok(updated && deleted)
  const commit = await repo.commit([
    create(random, 60, 60),
    {
      action: WriteOpAction.Update,
      collection: updated[0],
      rkey: updated[1],
      record: { $type: updated[0], text: 'changed' },
    },
    { action: WriteOpAction.Delete, collection: deleted[0], rkey: deleted[1] },
  ])
  return {
    keypair,
    key,
    options: { key, nowMs: Date.now(), strict: true },
    commit,
    blocks: await blocksOf(commit),
  }
}

async function blocksOf({ blocks, commit }: OracleCommit): Promise<CarBlock[]> {
  const car = await readCarWithRoot(blocks)
  const all = car.blocks.entries().map(({ bytes }) => blockOf(bytes))
  return all.toSorted((a, b) => Number(isSame(b.cid, commit)) - Number(isSame(a.cid, commit)))
}

/** The CAR of a commit with these blocks, the first being the commit. */
export function carOfBlocks(blocks: readonly CarBlock[]): Uint8Array {
  const [root] = blocks
  assert.ok(root)
  return carOf([root.cid], blocks)
}

export function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}
