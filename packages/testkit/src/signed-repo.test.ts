import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decode } from '@atcute/cbor'
import { parseCid } from '@atproto/lex-data'
import type { Cid } from '@atproto/lex-data'
import {
  BlockMap,
  def,
  MemoryBlockstore,
  MST,
  readCarWithRoot,
  Repo,
  verifyCommitSig,
  verifyRepoCar,
  WriteOpAction,
} from '@atproto/repo'
import type { RecordWriteOp } from '@atproto/repo'
import { cidText } from './cid.ts'
import { encodeCar } from './commit-event.ts'
import { randomFrom } from './random.ts'
import { SignedRepo } from './signed-repo.ts'
import type { RepoWrite, SignedCommit } from './signed-repo.ts'
import { Signer } from './signer.ts'
import { microsOfTid, nextTid, tidAt } from './tid.ts'

const did = 'did:plc:ewvi7nxzyoun6zhxrhs64oiz'
const signer = Signer.fromSeed('signed-repo')
const collections = ['app.attested.graph.follow', 'org.impact.claim.activity', 'org.impact.collection']

/** Writes of one commit that fit a repository with the records `paths`. */
function randomWrites(random: ReturnType<typeof randomFrom>, paths: readonly string[]): RepoWrite[] {
  const taken = new Set<string>()
  const count = random.next() < 0.7 ? 1 : 1 + random.below(8)
  return Array.from({ length: count }, (): RepoWrite | undefined => {
    const existing = paths.length > 0 && random.next() < 0.45 ? random.pick(paths) : undefined
    const [collection = '', rkey = ''] = existing?.split('/') ?? [
      random.pick(collections),
      `k${random.below(10_000)}`,
    ]
    if (taken.has(`${collection}/${rkey}`)) return undefined
    if (existing === undefined && paths.includes(`${collection}/${rkey}`)) return undefined
    taken.add(`${collection}/${rkey}`)
    if (existing !== undefined && random.next() < 0.6) return { action: 'delete', collection, rkey }
    const record = { $type: collection, number: random.below(1e9) }
    return { action: existing === undefined ? 'create' : 'update', collection, rkey, record }
  }).filter((write) => write !== undefined)
}

function oracleWrite(write: RepoWrite): RecordWriteOp {
  const { collection, rkey } = write as { collection: `${string}.${string}.${string}`; rkey: string } // reason: an NSID.
  if (write.action === 'delete') return { action: WriteOpAction.Delete, collection, rkey }
  const action = write.action === 'create' ? WriteOpAction.Create : WriteOpAction.Update
  return { action, collection, rkey, record: write.record } as RecordWriteOp // reason: JSON values are lexicon values.
}

/** Undoes the operations of a commit with nothing but its own blocks, and gives the root. */
async function invert(signed: SignedCommit): Promise<string> {
  const car = await readCarWithRoot(encodeCar(signed.commit.cid, [signed.commit, ...signed.blocks]))
  const store = new MemoryBlockstore(car.blocks)
  const commit = await store.readObj(car.root, def.commit)
  assert.ok(await verifyCommitSig(commit, signer.did()))
  let tree = MST.load(store, commit.data)
  const deletesFirst = signed.ops.toSorted(
    (left, right) => Number(left.cid !== null) - Number(right.cid !== null),
  )
  for (const { path, cid, prev } of deletesFirst) {
    if (cid === null) {
      assert.ok(prev)
      tree = await tree.add(path, toOracle(prev))
    } else if (prev === undefined) tree = await tree.delete(path)
    else tree = await tree.update(path, toOracle(prev))
  }
  return (await tree.getPointer()).toString()
}

function toOracle(cid: Uint8Array): Cid {
  return parseCid(cidText(cid))
}

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 32))
test(`random commits equal those of @atproto/repo and invert to prevData (seed ${seed})`, async () => {
  const random = randomFrom(seed)
  const repo = new SignedRepo(did, signer)
  repo.commit([])
  let oracle = await Repo.create(new MemoryBlockstore(), did, signer)
  for (let round = 0; round < 250; round++) {
    const writes = randomWrites(
      random,
      repo.records().map(([path]) => path),
    )
    const signed = repo.commit(writes)
    const expected = await oracle.formatCommit(writes.map(oracleWrite), signer)
    oracle = await oracle.applyCommit(expected)
    assert.equal(cidText(signed.data), oracle.commit.data.toString())

    const needed = new BlockMap().addMap(expected.newBlocks).addMap(expected.relevantBlocks)
    needed.delete(expected.cid)
    const sent = new Set(signed.blocks.map(({ cid }) => cidText(cid)))
    for (const { cid } of needed.entries())
      assert.ok(sent.has(cid.toString()), `round ${round} lacks ${String(cid)}`)
    assert.ok(signed.prevData)
    assert.equal(await invert(signed), cidText(signed.prevData))
  }
})

test('a commit that replaces all records keeps the height of the tree, as that of @atproto/repo does', async () => {
  const random = randomFrom(7)
  const repo = new SignedRepo(did, signer)
  repo.commit([])
  let oracle = await Repo.create(new MemoryBlockstore(), did, signer)
  const [collection = ''] = collections
  let bareRoots = 0
  for (let round = 0; round < 40; round++) {
    const removed = repo.records().map(([path]): RepoWrite => {
      return { action: 'delete', collection, rkey: path.slice(path.indexOf('/') + 1) }
    })
    removed.sort(() => random.next() - 0.5)
    const made = Array.from({ length: random.pick([1, 30]) }, (_, n): RepoWrite => {
      return { action: 'create', collection, rkey: `r${round}-${n}`, record: { $type: collection, round } }
    })
    const writes = [...removed, ...made]
    const signed = repo.commit(writes)
    oracle = await oracle.applyCommit(await oracle.formatCommit(writes.map(oracleWrite), signer))
    assert.equal(cidText(signed.data), oracle.commit.data.toString(), `round ${round}`)
    const root = decode(
      signed.blocks.find(({ cid }) => cidText(cid) === cidText(signed.data))?.bytes ?? assert.fail(),
    )
    if ((root as { e: unknown[] }).e.length === 0) bareRoots++ // a node of a tree
  }
  assert.ok(bareRoots > 0)
})

test('a whole repository verifies with its key and holds the current records', async () => {
  const repo = new SignedRepo(did, signer)
  const collection = 'org.impact.collection'
  repo.commit([{ action: 'create', collection, rkey: 'a', record: { title: 'one' } }])
  repo.commit([{ action: 'create', collection, rkey: 'b', record: { title: 'one' } }])
  repo.commit([{ action: 'delete', collection, rkey: 'a' }])
  const { creates } = await verifyRepoCar(encodeCar(repo.head.cid, repo.blocks()), did, signer.did())
  assert.deepEqual(
    creates.map(({ rkey }) => rkey),
    ['b'],
  )
})

test('the first commit has neither since nor prevData, the next has both', () => {
  const repo = new SignedRepo(did, signer)
  const first = repo.commit([])
  assert.equal(first.since, null)
  assert.equal(first.prevData, undefined)
  assert.equal(first.blocks.length, 1)
  const second = repo.commit([])
  assert.equal(second.since, first.rev)
  assert.deepEqual(second.prevData, first.data)
})

test('a draft leaves the repository as it is', () => {
  const repo = new SignedRepo(did, signer)
  const first = repo.commit([])
  const write: RepoWrite = { action: 'create', collection: 'a.b.c', rkey: 'd', record: {} }
  const draft = repo.draft([write])
  assert.deepEqual(decode(draft.blocks.at(-1)?.bytes ?? new Uint8Array()), { $type: 'a.b.c' })
  assert.equal(repo.rev, first.rev)
  assert.deepEqual(repo.records(), [])
})

test('TIDs increase, sort by time and tell it', () => {
  const first = nextTid()
  assert.ok(nextTid() > first)
  assert.equal(tidAt(0), '2222222222222')
  assert.equal(microsOfTid(tidAt(1_700_000_000_123_456, 5)), 1_700_000_000_123_456)
})
