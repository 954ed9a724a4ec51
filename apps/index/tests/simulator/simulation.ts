/** Plays a script: makes the world that it describes, does its steps, lets all be well, and says which promises broke. */
import { openGenerations, openIndexReader, type Position } from '@tributary/index-store'
import { entryKinds } from '@tributary/protocol'
import { randomFrom, type Random } from '@tributary/testkit/disk'
import {
  Conditions,
  ProcessKeeper,
  runSimulation,
  VirtualGlobals,
  VirtualTime,
  type Result,
  type Simulation,
} from '@tributary/testkit/simulation'
import { type Asked, expectedPage } from '../expected-page.ts'
import { denseEvent, keeper, randomEvent, timeOf } from '../random-event.ts'
import { reference } from '../reference.ts'
import { accountEvent } from '../scenario.ts'
import type { IndexConditions } from './conditions.ts'
import { IndexProcess, type Witness, type World } from './index-process.ts'
import { authorsOf, DatabaseReader, upTo } from './model.ts'
import { Network, type SimulatedAccount } from './network.ts'
import type { Script } from './script.ts'
import type { Step } from './step.ts'
import { makeReady, ProcessGoneError, Storage } from './storage.ts'
import { SimulatedStream } from './upstream.ts'

type Of<N extends Step['do']> = Extract<Step, { do: N }>

/** How long the world has to be as it should be before all must be. Names are asked more and more seldom. */
const settle = { stepMs: 60_000, msMax: 6 * 3_600_000 }
/** A process whose database has failed ends within this: nothing rests for longer. */
const failMsMax = 130_000
const readMsMax = 600_000

/** Plays a script. One at a time: what nobody catches meanwhile is taken for the index's. */
export async function play(script: Script): Promise<Result> {
  await makeReady()
  return await runSimulation(new Run(script))
}

/** Rows that an author may have made again where its event stands: as it is outside, and hardly any. */
const besideRowsOf = [2000, 10, 0, 2000]

class Run implements Simulation {
  readonly #world: World
  readonly #script: Script
  readonly #random: Random
  readonly #witness: Witness
  readonly #broken: string[] = []
  readonly #trace: string[] = []
  readonly #keeper: ProcessKeeper<IndexProcess>
  readonly #globals: VirtualGlobals
  #database: DatabaseReader | undefined
  /** Since when the database fails its process. */
  #failingMs: number | undefined

  constructor(script: Script) {
    this.#script = script
    const time = new VirtualTime()
    this.#random = randomFrom(script.seed ^ 0x5eed)
    const conditions: IndexConditions = new Conditions(time, this.#random)
    const storage = new Storage(this.#random)
    const stream = new SimulatedStream(conditions, script.batchMax)
    const network = new Network(conditions)
    const { checkEveryMs, lookMs } = script
    const besideRows = besideRowsOf[script.seed % besideRowsOf.length] ?? 0
    this.#world = { time, conditions, storage, stream, network, checkEveryMs, besideRows }
    this.#witness = {
      note: (what) => this.#trace.push(`${time.nowMs} ${what}`),
      onBroken: (what) => {
        this.#broken.push(what)
        this.#witness.note(`broken: ${what}`)
      },
    }
    this.#globals = new VirtualGlobals({ time, random: this.#random, lookMs })
    this.#keeper = new ProcessKeeper({
      name: 'index',
      time,
      storage,
      broken: this.#broken,
      onBroken: this.#witness.onBroken,
      start: () => IndexProcess.start(this.#world, this.#witness, this.#globals),
      onStarted: () => {
        this.#failingMs = undefined
      },
      onKill: () => this.#closeDatabase(),
      look: () => this.#look(),
    })
  }

  onUnhandled(error: unknown): void {
    if (error instanceof ProcessGoneError) return
    const index = this.#keeper.process
    if (index) index.fail(error)
    else this.#witness.onBroken(`A4: ${String(error)}`)
  }

  async run(): Promise<Result> {
    await this.#keeper.start()
    for (const step of this.#script.steps) {
      if (this.#broken.length > 0) break
      this.#trace.push(JSON.stringify(step))
      await this.#do(step)
      await this.#keeper.pass(0)
    }
    if (this.#broken.length === 0) await this.#settle()
    await this.#keeper.kill()
    await this.#world.time.run(1000)
    return { broken: this.#broken, trace: this.#trace }
  }

  [Symbol.dispose](): void {
    this.#globals[Symbol.dispose]()
    this.#closeDatabase()
    this.#world.storage[Symbol.dispose]()
  }

  /** All is as it should be from now on, and after a while it must show. */
  async #settle(): Promise<void> {
    const { conditions, storage, stream, time } = this.#world
    conditions.settle()
    stream.changed()
    storage.failAfter(Infinity)
    const untilMs = time.nowMs + settle.msMax
    let faults: string[] = []
    do {
      await this.#keeper.pass(settle.stepMs)
      if (this.#broken.length > 0) return
      faults = await this.#faults()
    } while (faults.length > 0 && time.nowMs < untilMs)
    for (const fault of faults) this.#witness.onBroken(fault)
    for (let draw = 0; draw < 3 && this.#broken.length === 0; draw++) await this.#read({ do: 'read', draw })
  }

  /** What does not hold yet. */
  async #faults(): Promise<string[]> {
    const { stream, network, storage } = this.#world
    const index = this.#keeper.started
    const database = await this.#present()
    if (!index || !database) return ['A4: the index does not start']
    const faults: string[] = []
    const { progress } = index
    if (progress?.cursor !== stream.tip)
      faults.push(`A7: the index says ${progress?.cursor} of ${stream.tip}`)
    if (database.cursor !== stream.tip) faults.push(`the cursor is at ${database.cursor} of ${stream.tip}`)
    if (await openGenerations(storage.place).isRebuildAsked()) faults.push('the rebuild is not done')
    if (database.isBehind()) faults.push('rows of authors are still to be made again')
    if (faults.length > 0) return faults
    const authors = authorsOf(stream.events)
    const living = network.accounts.filter(({ did }) => authors.has(did))
    const words = new Map(living.map(({ did, word }) => [did as string, word]))
    const difference = database.difference(stream.events, words)
    if (difference !== undefined) faults.push(`A7: by what hosts say, ${difference}`)
    const handles = database.handles()
    const authorsLeft = authorsOf(stream.left)
    for (const { did, handle } of network.accounts) {
      // An index that was built since does not know of an author whose records all are gone.
      const isKnown = authorsLeft.has(did) || handles.has(did)
      const wanted = authors.has(did) && isKnown ? handle : undefined
      if (handles.get(did) !== wanted) faults.push(`A7: ${did} is called ${handles.get(did)}, not ${wanted}`)
    }
    return faults
  }

  /** What must hold at every moment. */
  #look(): void {
    const { storage, time } = this.#world
    if (!storage.hasFailed) this.#failingMs = undefined
    else if (time.nowMs - (this.#failingMs ??= time.nowMs) > failMsMax)
      this.#witness.onBroken('a fault of the database does not end the process')
    if (this.#database?.hasChanged()) this.#compare(this.#database)
  }

  /** Holds the rows against the events and the words that the index has taken in. */
  #compare(database: DatabaseReader): void {
    const difference = database.difference(this.#world.stream.events, database.words())
    if (difference !== undefined) this.#witness.onBroken(`by what the index was told, ${difference}`)
  }

  async #do(step: Step): Promise<void> {
    const { stream, conditions, storage } = this.#world
    switch (step.do) {
      case 'wait':
        return await this.#keeper.pass(step.ms)
      case 'events':
        return this.#emit(step)
      case 'status': {
        const account = this.#account(step)
        if (account.name === keeper) return
        account.word = step.word
        const seq = stream.tip + 1
        const isActive = step.word === 'active'
        return stream.emit(accountEvent(seq, timeOf(seq * 20), account.name, isActive, step.word))
      }
      case 'identity':
        return this.#declare(step)
      case 'move': {
        const account = this.#account(step)
        account.move()
        return this.#tellIdentity(account)
      }
      case 'word': {
        const account = this.#account(step)
        if (account.name !== keeper) account.word = step.word
        return
      }
      case 'compact': {
        const database = await this.#present()
        if (database) stream.compact(database.cursor)
        return
      }
      case 'rebuild':
        if (this.#keeper.started) await openGenerations(storage.place).askForRebuild()
        return
      case 'read':
        return await this.#read(step)
      case 'condition':
        conditions.set(step.part, step.manner, step.forMs)
        return stream.changed()
      case 'fail':
        return storage.failAfter(step.afterCalls)
      case 'restart':
        await this.#keeper.restart(step)
    }
    await this.#present()
  }

  #account({ account }: { account: number }): SimulatedAccount {
    const { accounts } = this.#world.network
    const found = accounts[account % accounts.length]
    if (!found) throw new Error('a world has accounts')
    return found
  }

  #declare({ handle, ...step }: Of<'identity'>): void {
    const account = this.#account(step)
    const other = this.#account({ account: step.account + 1 })
    if (handle === 'new') account.rename()
    else account.declare(handle === 'none' ? undefined : other.handles.at(-1))
    this.#tellIdentity(account)
  }

  #tellIdentity({ did }: SimulatedAccount): void {
    const { stream } = this.#world
    const seq = stream.tip + 1
    const time = timeOf(seq * 20)
    stream.emit({ kind: 'identity', seq, did, time, identity: { did, seq, time } })
  }

  #emit({ count, draw, isDense = false }: Of<'events'>): void {
    const { stream, network } = this.#world
    const random = randomFrom(draw)
    for (let n = 0; n < count; n++) {
      const seq = stream.tip + 1 + random.below(2)
      const event = isDense ? denseEvent(seq, random) : randomEvent(seq, random)
      stream.emit(event)
      // Its host says the same, until it says something else.
      const account = network.account(event.did)
      if (event.kind === 'account' && account)
        account.word = event.account.active ? 'active' : (event.account.status ?? 'inactive')
    }
  }

  /** The database that readers read now. */
  async #present(): Promise<DatabaseReader | undefined> {
    const { storage } = this.#world
    if (!this.#keeper.started) return undefined
    const path = storage.fileOf(await openGenerations(storage.place).current())
    if (this.#database?.path !== path) {
      const next = new DatabaseReader(path)
      if (this.#database) this.#compareGenerations(this.#database, next)
      this.#closeDatabase()
      this.#database = next
    }
    return this.#database
  }

  /** What the stream does not tell stays in a new generation, unless somebody was asked since. */
  #compareGenerations(before: DatabaseReader, after: DatabaseReader): void {
    if (before.cursor !== after.cursor) return
    const [words, accounts, handles, authors] = [
      after.words(),
      after.accounts(),
      after.handles(),
      after.authors(),
    ]
    // A stream that was compacted may have no event of an account whose records all are gone.
    for (const [did, word] of before.words()) {
      // Its host may have been asked since, and may have said something else since then.
      const now = words.get(did) ?? ''
      if (accounts.has(did) && now !== word && this.#world.network.account(did)?.hasSaid(now) !== true)
        this.#witness.onBroken(`a rebuild forgets that the host of ${did} says ${word}`)
    }
    for (const [did, handle] of before.handles())
      if (authors.has(did) && !handles.has(did) && this.#world.network.account(did)?.handle === handle)
        this.#witness.onBroken(`a rebuild forgets that ${did} is ${handle}`)
  }

  #closeDatabase(): void {
    this.#database?.[Symbol.dispose]()
    this.#database = undefined
  }

  /** Reads a feed to its end, page by page, and holds it against the rules if nothing was written meanwhile. */
  async #read({ draw }: Of<'read'>): Promise<void> {
    const { time, stream, network } = this.#world
    const database = await this.#present()
    if (!database) return
    const random = randomFrom(draw)
    const dids = network.accounts.map(({ did }) => did)
    const asked: Asked = {
      viewer: random.pick(dids),
      evaluators: dids.filter(() => random.below(3) === 0),
      kinds: random.below(2) === 0 ? [] : entryKinds.filter(() => random.below(2) === 0),
      quality: random.pick([
        undefined,
        { allowed: ['standard'], includeUnrated: true },
        { allowed: ['standard'], includeUnrated: false },
      ]),
    }
    const limit = 1 + random.below(random.pick([3, 50]))
    if (database.hasChanged()) this.#compare(database)
    const read = await time.until(this.#pages(asked, limit), readMsMax)
    if (database.hasChanged()) return this.#compare(database)
    if (database.isBehind()) return
    const events = upTo(stream.events, database.cursor)
    const wanted = expectedPage(reference(events, database.words()), asked)
    if (read.join() !== wanted.join())
      this.#witness.onBroken(`${asked.viewer} reads ${read.join()}, and not ${wanted.join()}`)
  }

  async #pages({ viewer, evaluators, kinds, quality }: Asked, limit: number): Promise<string[]> {
    const { storage } = this.#world
    await using index = openIndexReader(storage.place)
    const wantedKinds = entryKinds.filter((kind) => kinds.includes(kind))
    const selection = {
      viewer,
      evaluators,
      limit,
      labelers: [],
      now: BigInt(Math.floor(this.#world.time.nowMs)) * 1000n,
      ...(kinds.length > 0 && { kinds: wantedKinds }),
      ...(quality && { quality }),
    }
    const read: string[] = []
    for (let after: Position | undefined; ;) {
      const page = await index.snapshot({ timeoutMs: readMsMax }, (view) =>
        view.entries({ ...selection, ...(after && { after }) }),
      )
      read.push(...page.map(({ uri }) => uri))
      after = page.at(-1)
      if (!after || page.length < limit) return read
    }
  }
}
