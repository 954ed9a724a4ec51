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

  /**
   * Makes one commit, and what a PDS sends about it: the covering proof, not the whole tree.
   * @param givenUp writes that a commit was made of before and dropped, by a producer that keeps its `Repo` in memory.
   * The objects then know the height of the tree, which changes what becomes of one that loses all its records.
   */
  async commit(writes: RecordWriteOp[], givenUp: RecordWriteOp[] = []): Promise<OracleCommit> {
    const before = this.#repo
    if (givenUp.length > 0) await before.formatCommit(givenUp, this.#keypair)
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

  /** Whether the root of the tree has no keys above one subtree. */
  async hasBareRoot(): Promise<boolean> {
    const entries = await this.#repo.data.getEntries()
    return entries.length === 1 && entries[0]?.isTree() === true
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
