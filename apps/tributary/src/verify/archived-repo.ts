/**
 * What a stream has of one account: its records as the events leave them, by the rules that a consumer follows too
 * (BEHAVIOUR.md of the stream). The newest row of a record is its content, and a `#sync` whose inner seq is 0 takes back
 * everything before it.
 */
import { type ClientEvent, StreamError } from '@tributary/client/node'
import type { Did } from '@tributary/protocol'
import type { HostRepo } from './host-repos.ts'

export type DifferenceKind = 'missing' | 'extra' | 'different' | 'unreadable'

/** What the stream has otherwise than the host. */
export interface Difference {
  kind: DifferenceKind
  /** Path of the record; of an unreadable event its place. */
  path: string
  detail: string
}

interface Entry {
  rev: string
  /** Undefined for a record that was deleted. */
  cid: string | undefined
}

/** The stream sends more records of one account than any repository has. */
class TooManyRecordsError extends Error {
  override readonly name = 'TooManyRecordsError'
}

/** Some 200 bytes each. A repository of the largest size that is read has as many at most. */
const entriesMax = 2_000_000
/** Events that cannot be read, of which each is told. */
const unreadableMax = 1000
/** Words for why an account is not active that are about its relay: what it wrote is shown all the same. */
const shownStatuses: readonly unknown[] = ['throttled', 'desynchronized']

export class ArchivedRepo {
  readonly #did: Did
  readonly #entries = new Map<string, Entry>()
  readonly #unreadable: Difference[] = []
  /** Everything up to this seq was taken. */
  cursor = 0
  /** The stream says that the account is not active, so that nobody is shown its records. */
  isHidden = false

  constructor(did: Did) {
    this.#did = did
  }

  /** Collections that it has records of. */
  get collections(): Set<string> {
    const current = [...this.#entries].filter(([, { cid }]) => cid !== undefined)
    return new Set(current.map(([path]) => collectionOf(path)))
  }

  /** Records that it has. */
  get size(): number {
    return [...this.#entries.values()].filter(({ cid }) => cid !== undefined).length
  }

  /** Takes events of the account, in order. One of another account should not have come, and is told. @throws TooManyRecordsError */
  take(events: readonly ClientEvent[]): void {
    for (const event of events) {
      try {
        this.#take(event)
      } catch (error) {
        if (!(error instanceof StreamError)) throw error
        this.noteUnreadable(`seq ${event.seq}`, error.message)
      }
    }
  }

  /** Something of the account may be missing because it cannot be read. */
  noteUnreadable(path: string, detail: string): void {
    if (this.#unreadable.length < unreadableMax) this.#unreadable.push({ kind: 'unreadable', path, detail })
  }

  /**
   * How it differs from the repository in these collections. A record that was written after the repository was fetched is
   * not compared.
   */
  *differences(repo: HostRepo, isCompared: (collection: string) => boolean): Generator<Difference> {
    yield* this.#unreadable
    for (const [path, cid] of repo.records) {
      const entry = this.#entries.get(path)
      if (!isCompared(collectionOf(path)) || (entry && entry.rev > repo.rev)) continue
      if (entry?.cid === undefined)
        yield { kind: 'missing', path, detail: `its host has ${cid}, and the stream nothing` }
      else if (entry.cid !== cid)
        yield { kind: 'different', path, detail: `its host has ${cid}, and the stream ${entry.cid}` }
    }
    for (const [path, { rev, cid }] of this.#entries) {
      if (cid === undefined || rev > repo.rev || repo.records.has(path)) continue
      if (isCompared(collectionOf(path)))
        yield { kind: 'extra', path, detail: `the stream has ${cid}, and its host nothing` }
    }
  }

  #take(event: ClientEvent): void {
    if (event.did !== this.#did) return this.noteUnreadable(`seq ${event.seq}`, 'it is of another account')
    switch (event.kind) {
      case 'commit': {
        const { operation, collection, rkey, rev } = event
        this.#entries.set(`${collection}/${rkey}`, {
          rev,
          cid: operation === 'delete' ? undefined : event.cid,
        })
        if (this.#entries.size <= entriesMax) return
        throw new TooManyRecordsError(`the stream has more than ${entriesMax} records of ${event.did}`)
      }
      case 'sync':
        if (event.sync.seq === 0) this.#entries.clear()
        return
      case 'account': {
        const { active, status } = event.account
        this.isHidden = !active && !shownStatuses.includes(status)
        if (!active && status === 'deleted') this.#entries.clear()
        return
      }
      case 'identity':
    }
  }
}

export function collectionOf(path: string): string {
  return path.slice(0, path.indexOf('/'))
}
