/**
 * This is one process of the index, from its start to its end. Its parts are the real ones, wired as in `service.ts` and
 * `generation/serve.ts`, on virtual time and without sockets. Its databases outlive it. Labels are not played.
 */
import { rmSync } from 'node:fs'
import { createResolver } from '@tributary/identity'
import { IndexStorageError, type IndexWriter, openGenerations, parseDatetime } from '@tributary/index-store'
import { indexedCollections } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import {
  type KeptProcess,
  MachineClock,
  type ProcessClock,
  type VirtualGlobals,
  type VirtualTime,
} from '@tributary/testkit/simulation'
import { consumeStream, type StreamProgress } from '../../src/consume/stream-consumer.ts'
import { Fold } from '../../src/fold/fold.ts'
import { sourceOf } from '../../src/fold/followed-stream.ts'
import { NewStream } from '../../src/generation/new-stream.ts'
import { workBeside } from '../../src/generation/serve.ts'
import { type Next, rebuildWhenAsked } from '../../src/generation/rebuild.ts'
import { Removal } from '../../src/generation/removal.ts'
import { GoneAnswers } from '../../src/gone-answers.ts'
import { HandleLookups } from '../../src/handles/handle-lookups.ts'
import { HandleRequests } from '../../src/handles/handle-requests.ts'
import { sweepAccounts } from '../../src/sweep/account-sweep.ts'
import { views } from '../scenario.ts'
import type { IndexConditions } from './conditions.ts'
import type { Network } from './network.ts'
import type { Storage } from './storage.ts'
import type { SimulatedStream } from './upstream.ts'

export interface World {
  time: VirtualTime
  conditions: IndexConditions
  stream: SimulatedStream
  network: Network
  storage: Storage
  checkEveryMs: number
  besideRows: number
}

/** Told of all that a process does. */
export interface Witness {
  note: (what: string) => void
  onBroken: (what: string) => void
}

export const source = sourceOf('wss://stream.example.com')
const policy = { updateContentTypes: [] }
const stopMsMax = 60_000
const startMsMax = 60_000
const replacedKeptMs = 120_000
const standstillMs = 30_000
const tryAgainMs = 60_000
const logger = createLogger('simulator', { level: 'silent' })

export class IndexProcess implements KeptProcess {
  readonly world: World
  readonly clock: ProcessClock
  readonly #witness: Witness
  readonly #stopping = new AbortController()
  readonly #writers = new Set<IndexWriter>()
  #fault: unknown
  #isOver = false
  #finished: Promise<void> | undefined
  #served: Next | undefined
  #progress: StreamProgress | undefined
  /** The stream has told all it knew, once. */
  #wasLive = false

  private constructor(world: World, witness: Witness) {
    this.world = world
    this.#witness = witness
    this.clock = new MachineClock(world.time, (error) => this.fail(error))
  }

  /** @param globals of which the process takes its timers. */
  static async start(world: World, witness: Witness, globals: VirtualGlobals): Promise<IndexProcess> {
    const index = new IndexProcess(world, witness)
    globals.clock = index.clock
    try {
      await world.time.until(index.#start(), startMsMax)
    } catch (error) {
      index.fail(error)
    }
    return index
  }

  get hasFailed(): boolean {
    return this.#fault !== undefined
  }

  get hasStarted(): boolean {
    return this.#finished !== undefined
  }

  get progress(): StreamProgress | undefined {
    return this.#progress
  }

  /** Ends the process. What is no fault of its database is a fault of the index. */
  fail(error: unknown): void {
    if (this.#isOver) return
    this.#fault ??= error
    this.clock.end()
    if (!this.world.storage.hasFailed || !(error instanceof IndexStorageError))
      this.#witness.onBroken(`A4: the process ends: ${textOf(error)}`)
  }

  async kill(): Promise<void> {
    this.#isOver = true
    this.clock.end()
    this.world.storage.end()
    this.#stopping.abort()
    // Work that is under way ends at its next call.
    for (const writer of this.#writers) void writer[Symbol.asyncDispose]()
  }

  async stop(): Promise<boolean> {
    const ending = async (): Promise<void> => {
      this.#stopping.abort()
      await this.#finished
      await this.#served?.writer[Symbol.asyncDispose]()
    }
    try {
      await this.world.time.until(ending(), stopMsMax)
      this.#isOver = true
      this.clock.end()
      return true
    } catch (error) {
      this.fail(error)
      return false
    }
  }

  async #open(generation: number): Promise<IndexWriter> {
    const writer = await this.world.storage.open(generation)
    this.#writers.add(writer)
    return writer
  }

  async #start(): Promise<void> {
    const { world, clock } = this
    // A thread takes real time, in which any virtual time passes.
    const generations = openGenerations(world.storage.place, (file) => rmSync(file, { force: true }))
    const first = await generations.current()
    this.#served = { number: first, writer: await this.#open(first) }
    this.#witness.note(`started with generation ${first}`)
    this.#finished = this.#run(generations)
    // `stop` and `kill` wait for it, too.
    this.#finished.then(
      () => {
        if (!this.#stopping.signal.aborted) this.fail(new Error('the index ends by itself'))
      },
      (error: unknown) => this.fail(error),
    )
    clock.every(60_000, () => this.#witness.note(`at ${this.#progress?.cursor} ${this.#progress?.state}`))
  }

  /** Serves one generation after the other. */
  async #run(generations: ReturnType<typeof openGenerations>): Promise<void> {
    const { world, clock } = this
    const until = this.#stopping.signal
    const newClient = () => world.stream.clientOf(clock)
    const watchers = watchersOf(world, clock, this.#witness)
    const removal = new Removal({
      generations,
      onLeft: (isLeft) => {
        if (isLeft) this.#witness.onBroken('A7: a generation cannot be removed from a disk that works')
      },
      tryAgainMs,
      logger,
    })
    while (!until.aborted && this.#served) {
      const { number, writer } = this.#served
      const replaced = new AbortController()
      const fold = new Fold(writer, policy, views, { besideRows: world.besideRows })
      const work = this.#serve(writer, fold, watchers, AbortSignal.any([until, replaced.signal]))
      const present = {
        number,
        writer,
        progress: () => this.#progress,
        stop: async (): Promise<void> => {
          replaced.abort()
          await work
        },
      }
      const parts = {
        generations,
        openWriter: (generation: number) => this.#open(generation),
        newClient,
        source,
        policy,
        views,
        besideRows: world.besideRows,
        logger,
        onProgress: () => undefined,
        onUnreadable: this.#onUnreadable,
        removal,
        newStream: new NewStream({ afterMs: 0, onHeldBack: () => undefined, logger }),
        replacedKeptMs,
        standstillMs,
        tryAgainMs,
      }
      const [next] = await Promise.all([rebuildWhenAsked(present, parts, until), work])
      if (next === undefined) return
      this.#served = next
      this.#witness.note(`serves generation ${next.number}`)
      if (next.writer !== writer) await writer[Symbol.asyncDispose]()
    }
  }

  readonly #onUnreadable = (events: number): void =>
    this.#witness.onBroken(`A7: ${events} events of a stream that can be read were left out`)

  /** Keeps one generation up to date. */
  async #serve(
    writer: IndexWriter,
    fold: Fold,
    watchers: ReturnType<typeof watchersOf>,
    signal: AbortSignal,
  ): Promise<void> {
    const { world, clock } = this
    const { network } = world
    const ask = network.hosts(clock)
    const lookups = new HandleLookups({
      ...watchers,
      requests: new HandleRequests(writer),
      resolveHandle: network.names(clock),
      logger,
      onLookup: () => undefined,
    })
    await Promise.all([
      workBeside(fold, () => undefined, signal),
      consumeStream({
        client: world.stream.clientOf(clock),
        source,
        collections: indexedCollections,
        fold,
        logger,
        signal,
        onProgress: (now) => {
          this.#progress = now
          this.#wasLive ||= now.state === 'live'
        },
        onUnreadable: this.#onUnreadable,
        onApplied: ({ failed }) => {
          for (const { seq, error } of failed)
            this.#witness.onBroken(`A4: the fold fails at ${seq}: ${textOf(error)}`)
          lookups.wake()
        },
      }),
      fold.adopt(signal),
      lookups.run(signal),
      sweepAccounts(
        {
          ...watchers,
          writer,
          fold,
          allowedPrivateHosts: [],
          fetch: async (...question) => {
            if (!this.#wasLive)
              this.#witness.onBroken('a host is asked, and the stream has not told yet what it knows')
            return await ask(...question)
          },
          everyMs: world.checkEveryMs,
          isCaughtUp: () => this.#progress?.state === 'live',
          newestEventAt: () => parseDatetime(this.#progress?.newestEventTime),
          logger,
          onChecked: () => undefined,
        },
        signal,
      ),
    ])
  }
}

/** What is known of the network, whichever generation is served. */
function watchersOf({ network }: World, clock: ProcessClock, { note }: Witness) {
  const nowMs = (): number => clock.nowMs()
  const onDoubt = (isDoubted: boolean): void => note(`gone answers are doubted: ${isDoubted}`)
  return {
    resolver: createResolver({
      plcUrl: 'https://plc.example.com',
      allowedPrivateHosts: [],
      fetch: network.directory(clock),
      nowMs,
      delay: (ms) => new Promise((resolve) => void clock.after(ms, resolve)),
    }),
    goneAnswers: new GoneAnswers({ onDoubt, nowMs }),
    lostNames: new GoneAnswers({ onDoubt, nowMs }),
    nowMs,
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
