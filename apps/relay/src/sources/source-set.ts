/** The approved PDSs: which there are, and a connection for each. */
import type { NormalizedHost } from '@tributary/identity'
import type { StateTrail } from '../state/state-trail.ts'
import { SourceConnection, type ConnectionOptions } from './source-connection.ts'
import { Source, type StoredSource } from './source.ts'

export class SourceSet {
  readonly #byHost = new Map<string, { source: Source; connection?: SourceConnection }>()
  readonly #byId = new Map<number, Source>()

  constructor(stored: readonly StoredSource[]) {
    for (const each of stored) this.#put(new Source(each))
  }

  get sources(): Iterable<Source> {
    return this.#byId.values()
  }

  byHost(host: string): Source | undefined {
    return this.#byHost.get(host)?.source
  }

  byId(id: number): Source | undefined {
    return this.#byId.get(id)
  }

  /** Approves a host. It is read from its oldest event. Returns the source there is if it was approved before. */
  add({ host, url }: NormalizedHost, trail: StateTrail): Source {
    const known = this.byHost(host)
    if (known) return known
    const id = Math.max(0, ...this.#byId.keys()) + 1
    const source = new Source({
      id,
      host,
      url: url.replace(/^http/, 'ws'),
      cursor: 0,
      epoch: 1,
      epochAtMs: 0,
      ahead: [],
    })
    this.#put(source)
    trail.storeSources([source])
    return source
  }

  /** Connects every source that is not connected yet. */
  connectAll(options: ConnectionOptions): void {
    for (const entry of this.#byHost.values())
      entry.connection ??= new SourceConnection(entry.source, options)
  }

  /** Dials a source at once. False when the host is not approved. */
  reconnect(host: string): boolean {
    const entry = this.#byHost.get(host)
    if (entry && entry.source.state !== 'connected') entry.connection?.reconnect()
    return entry !== undefined
  }

  setPaused(isPaused: boolean): void {
    for (const { connection } of this.#byHost.values()) connection?.setPaused(isPaused)
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#byHost.values(), async ({ connection }) => await connection?.close()))
  }

  #put(source: Source): void {
    this.#byHost.set(source.host, { source })
    this.#byId.set(source.id, source)
  }
}
