/** Repositories of the reference implementation, and the events that a PDS would send for their commits. */
import type { Keypair } from '@atproto/crypto'
import {
  BlockMap,
  blocksToCarFile,
  MemoryBlockstore,
  Repo,
  WriteOpAction,
  type CommitData,
  type RecordCreateOp,
  type RecordWriteOp,
} from '@atproto/repo'
import type { CommitBodyParts, OpParts } from './frame-builder.ts'

export interface OracleCommit extends CommitBodyParts {
  /** Root of the tree after the commit, in text. */
  data: string
}

export class OracleRepo {
  readonly did: string
  readonly #keypair: Keypair
  #repo: Repo
  /** Paths that the repository has, in no order. */
  readonly paths: string[] = []

  private constructor(did: string, keypair: Keypair, repo: Repo) {
    this.did = did
    this.#keypair = keypair
    this.#repo = repo
  }

  /** @param records that it begins with: made much faster than by commits, for nothing is proven about them. */
  static async create(
    did: string,
    keypair: Keypair,
    records: readonly RecordCreateOp[] = [],
  ): Promise<OracleRepo> {
    const repo = await Repo.create(new MemoryBlockstore(), did, keypair, [...records])
    const made = new OracleRepo(did, keypair, repo)
    made.paths.push(...records.map(({ collection, rkey }) => `${collection}/${rkey}`))
    return made
  }

  /** Makes one commit, and what a PDS sends about it: the covering proof, not the whole tree. */
  async commit(writes: RecordWriteOp[]): Promise<OracleCommit> {
    const before = this.#repo
    const commit = await before.formatCommit(writes, this.#keypair)
    this.#repo = await before.applyCommit(commit)
    const ops = await Promise.all(writes.map((write) => describe(write, before, this.#repo)))
    for (const { action, path } of ops) {
      if (action === 'create') this.paths.push(path)
      else if (action === 'delete') this.paths.splice(this.paths.indexOf(path), 1)
    }
    return {
      did: this.did,
      rev: commit.rev,
      since: commit.since,
      commit: commit.cid.bytes,
      prevData: before.commit.data.bytes,
      blocks: await carSlice(commit),
      ops,
      data: this.#repo.commit.data.toString(),
    }
  }

  /** The CAR of the whole repository. */
  async car(): Promise<Uint8Array> {
    const storage = this.#repo.storage
    const blocks = new BlockMap()
    const cids = [this.#repo.cid, ...(await this.#repo.data.allCids()).toList()]
    for (const cid of cids) blocks.set(cid, (await storage.getBytes(cid)) ?? new Uint8Array())
    return await blocksToCarFile(this.#repo.cid, blocks)
  }
}

async function describe(write: RecordWriteOp, before: Repo, after: Repo): Promise<OpParts> {
  const path = `${write.collection}/${write.rkey}`
  const cid = write.action === WriteOpAction.Delete ? null : await after.data.get(path)
  const prev = write.action === WriteOpAction.Create ? null : await before.data.get(path)
  return { action: write.action, path, cid: cid?.bytes ?? null, prev: prev?.bytes }
}

async function carSlice(commit: CommitData): Promise<Uint8Array> {
  return await blocksToCarFile(commit.cid, commit.relevantBlocks)
}

/** A random number generator that a seed repeats: 0 up to `below`. */
export type Random = (below: number) => number

export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

const collections = [
  'org.impact.claim.activity',
  'org.impact.context.evaluation',
  'app.attested.graph.follow',
] as const

/** Between one and `max` writes of one kind or of all, each to another path. */
export function randomWrites(repo: OracleRepo, random: Random, max: number): RecordWriteOp[] {
  const kinds = [['create'], ['update'], ['delete'], ['create', 'update', 'delete']][random(4)] ?? []
  const free = [...repo.paths]
  const writes: RecordWriteOp[] = []
  for (let left = 1 + random(max); left > 0; left--) {
    const kind = kinds[random(kinds.length)]
    const path = kind === 'create' ? undefined : free.splice(random(free.length), 1)[0]
    if (path === undefined) writes.push(create(random, writes.length))
    else writes.push(change(path, kind === 'delete', random))
  }
  return writes
}

export function create(random: Random, i: number): RecordCreateOp {
  const collection = collections[random(collections.length)] ?? collections[0]
  const rkey = `${random(2 ** 32).toString(36)}.${i}.${random(2 ** 32).toString(36)}`
  return { action: WriteOpAction.Create, collection, rkey, record: { $type: collection, n: random(2 ** 32) } }
}

function change(path: string, isDelete: boolean, random: Random): RecordWriteOp {
  const [collection, rkey] = path.split('/') as [(typeof collections)[number], string] // made by `create`
  if (isDelete) return { action: WriteOpAction.Delete, collection, rkey }
  return { action: WriteOpAction.Update, collection, rkey, record: { $type: collection, n: random(2 ** 32) } }
}
