/** Plays a script: makes the world that it describes, does its steps, lets all be well, and says which promises broke. */
// oxlint-disable-next-line import/no-unassigned-import -- it changes what later modules take
import './inline-threads.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { EventLog } from '@tributary/event-log'
import { randomFrom, type Random } from '@tributary/testkit/disk'
import { commitBody, syncBody, tidAt } from '@tributary/testkit'
import {
  Conditions,
  ProcessKeeper,
  runSimulation,
  VirtualTime,
  watchLog,
  type Result,
  type Simulation,
} from '@tributary/testkit/simulation'
import { alteredBody } from './altered.ts'
import { knownOf, restFaults } from './at-rest.ts'
import { cacheFault, compactedFaults, settledFaults } from './checks.ts'
import type { StreamConditions } from './conditions.ts'
import { readArchive } from './archive-reader.ts'
import { changingCollections, watchedCollections } from './collections.ts'
import { damageFaults } from './damaged-archive.ts'
import { SocketsHeld } from './held-bytes.ts'
import { Ledger } from './ledger.ts'
import { onLogOpened } from './opened-logs.ts'
import type { Script } from './script.ts'
import { subscribersMax, type Step } from './step.ts'
import { Storage } from './storage.ts'
import { type Point, StreamProcess, type Upkeep, type World } from './stream-process.ts'
import { filterOf, Subscriber } from './subscriber.ts'
import { signerOf, SimulatedAccount, SimulatedRelay } from './upstream.ts'
import { writesOf } from './writes.ts'

type Of<N extends Step['do']> = Extract<Step, { do: N }>

/** How long the world has to be as it should be before all must be. */
const settle = { stepMs: 10_000, msMax: 4 * 3_600_000 }
const planMsMax = 600_000
/** Its length takes two bytes in a node of a tree. */
const longKey = 200
/** Numbers below it stand for collections that come and go in most scripts. */
const changes = 8
/** A moment that a script waits for may not come. */
const pointMsMax = 3000
const noUpkeep: Upkeep = {
  compactEveryMs: 0,
  compactBytesPerSecond: 2 ** 30,
  listedAfterMs: undefined,
  quietAccounts: 0,
}

let ready: Promise<void> | undefined

/** The code of checksums is made once, and that takes real time. */
async function makeReady(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'stream-simulator-'))
  const log = await EventLog.open({ directory })
  await log.close()
  rmSync(directory, { recursive: true })
}

/** Plays a script. One at a time: what nobody catches meanwhile is taken for the stream's. */
export async function play(script: Script): Promise<Result> {
  await (ready ??= makeReady())
  return await runSimulation(new Run(script))
}

class Run implements Simulation {
  readonly #script: Script
  readonly #world: World
  readonly #ledger: Ledger
  readonly #random: Random
  readonly #accounts: readonly SimulatedAccount[]
  readonly #dids: readonly string[]
  readonly #subscribers: readonly Subscriber[]
  readonly #held: SocketsHeld
  readonly #keeper: ProcessKeeper<StreamProcess>
  #micros = 0
  #isRenumbered = false
  #onPoint: (point: Point) => void = () => {}
  /** How often a repository was asked for. */
  #asked = 0
  #log: EventLog | undefined

  constructor(script: Script) {
    this.#script = script
    const keepsFormer = script.steps.some((step) => step.do === 'condition' && step.manner === 'older')
    const time = new VirtualTime()
    this.#random = randomFrom(script.seed ^ 0x5eed)
    const conditions: StreamConditions = new Conditions(time, this.#random)
    const relay = new SimulatedRelay(time, conditions)
    const storage = new Storage(this.#random, conditions)
    this.#accounts = Array.from(
      { length: script.accounts },
      (_, index) => new SimulatedAccount(index, `${script.seed} ${index}`, keepsFormer),
    )
    this.#dids = this.#accounts.map(({ did }) => did)
    const { bounds, upkeep = noUpkeep } = script
    const onPoint = (point: Point): void => {
      if (point === 'repo-asked') this.#asked++
      this.#onPoint(point)
    }
    this.#world = { time, conditions, accounts: this.#accounts, relay, storage, bounds, upkeep, onPoint }
    this.#ledger = new Ledger(() => time.nowMs)
    this.#held = new SocketsHeld(bounds.heldBytes)
    const logPast = { seq: 0, timeMs: 0 }
    onLogOpened((log) => {
      this.#log = log
      watchLog(log, logPast, (what) => this.#ledger.onBroken(what))
    })
    // Before events that are on their way have come, the whole repository may.
    if (upkeep.listedAfterMs !== undefined)
      for (const did of this.#dids) this.#ledger.account(did).mayRefill = true
    this.#subscribers = Array.from(
      { length: subscribersMax },
      (_, index) =>
        new Subscriber(index, script, { dids: this.#dids, ledger: this.#ledger, held: this.#held }),
    )
    this.#keeper = new ProcessKeeper({
      name: 'stream',
      time,
      storage,
      broken: this.#ledger.broken,
      onBroken: (what) => this.#ledger.onBroken(what),
      start: () => StreamProcess.start(this.#world, this.#ledger),
      onStarted: (stream) => {
        for (const subscriber of this.#subscribers) subscriber.attach(stream)
      },
      onKill: () => {
        for (const subscriber of this.#subscribers) subscriber.detach()
      },
      look: () => this.#look(),
    })
  }

  onUnhandled(error: unknown): void {
    const stream = this.#keeper.process
    if (stream) stream.fail(error)
    else this.#ledger.onBroken(`A4: ${String(error)}`)
  }

  async run(): Promise<Result> {
    const { broken, trace } = this.#ledger
    await this.#keeper.start()
    for (const account of this.#accounts) {
      if (this.#isQuiet(account)) {
        this.#commit(account, 3, this.#random, false)
        continue
      }
      this.#marker(account, 'identity', { handle: `account${account.index}.example.com` })
      this.#marker(account, 'account', { active: true })
      this.#commit(account, 1, this.#random)
    }
    for (const step of this.#script.steps) {
      if (broken.length > 0) break
      this.#ledger.trace.push(JSON.stringify(step))
      await this.#do(step)
      await this.#pass(0)
    }
    if (broken.length === 0) await this.#settle()
    await this.#keeper.kill()
    if (broken.length === 0)
      broken.push(...(await damageFaults(this.#world.storage.directory, this.#script.seed)))
    return { broken, trace }
  }

  [Symbol.dispose](): void {
    this.#world.storage[Symbol.dispose]()
  }

  /** All is as it should be from now on, and after a while it must show, after a restart too. */
  async #settle(): Promise<void> {
    const { conditions, time } = this.#world
    conditions.settle()
    time.aheadMs = 0
    for (const subscriber of this.#subscribers) subscriber.setPace('fast')
    for (const account of this.#accounts) if (account.isMuddled) this.#commit(account, 1, this.#random)
    const untilMs = time.nowMs + settle.msMax
    let faults: string[] = []
    do {
      await this.#pass(settle.stepMs)
      if (this.#ledger.broken.length > 0) return
      faults = await settledFaults(this.#keeper.process, this.#world, this.#ledger)
      faults.push(...this.#subscribers.flatMap((subscriber) => subscriber.faults()))
      if (faults.length === 0) faults.push(...(await this.#compactedFaults()))
    } while (faults.length > 0 && time.nowMs < untilMs)
    for (const fault of faults) this.#ledger.onBroken(fault)
    if (faults.length > 0) return
    await this.#plan({ do: 'plan', filter: 0, after: 0 })
    for (const subscriber of this.#subscribers) subscriber.leave()
    if (this.#script.seed % 2 === 1) await this.#rest()
    await this.#keeper.restart({ how: 'stop', afterCalls: undefined, downMs: 0 })
  }

  /** A look that takes time, and that half of the runs have. */
  async #rest(): Promise<void> {
    const stream = this.#keeper.started
    const log = this.#log
    if (!stream || !log) return
    const faults = await restFaults({
      stream,
      log,
      world: this.#world,
      pass: this.#pass,
      asked: () => this.#asked,
    })
    for (const fault of faults) this.#ledger.onBroken(fault)
    const before = knownOf(stream, this.#world)
    await this.#keeper.restart({ how: 'kill', afterCalls: undefined, downMs: 0 })
    const next = this.#keeper.started
    const after = next && knownOf(next, this.#world)
    if (before !== after)
      this.#ledger.onBroken(`A7: before a start ${before} is known, and after it ${after}`)
  }

  async #compactedFaults(): Promise<string[]> {
    const stream = this.#keeper.process
    if (!stream) return []
    try {
      const faults = compactedFaults(stream, this.#world, this.#ledger)
      return await this.#world.time.until(faults, planMsMax)
    } catch (error) {
      return [`A4: the archive is not compacted: ${String(error)}`]
    }
  }

  readonly #pass = async (ms: number): Promise<void> => await this.#keeper.pass(ms)

  #look(): void {
    const { relay, time } = this.#world
    const stream = this.#keeper.started
    if (stream) {
      relay.release(stream.parts.states.position?.cursor ?? 0)
      const fault = this.#held.fault(stream) ?? cacheFault(stream)
      if (fault !== undefined) this.#ledger.onBroken(fault)
    }
    for (const subscriber of this.#subscribers) subscriber.now(time.nowMs)
  }

  async #do(step: Step): Promise<void> {
    switch (step.do) {
      case 'wait':
        return await this.#wait(step)
      case 'restart':
        return await this.#restart(step)
      case 'plan':
        return await this.#plan(step)
      case 'commit':
        return this.#commit(this.#account(step), step.times, randomFrom(step.draw))
      case 'sync':
        return this.#sync(this.#account(step))
      case 'identity': {
        const account = this.#account(step)
        return this.#marker(account, 'identity', { handle: `account${account.index}.example.com` })
      }
      case 'status': {
        const account = this.#account(step)
        account.status = step.word
        const isActive = step.word === 'active'
        return this.#marker(
          account,
          'account',
          isActive ? { active: true } : { active: false, status: step.word },
        )
      }
      case 'rotate':
        return await this.#rotate(step)
      case 'forge':
        return this.#forge(step)
      case 'alter':
        return this.#alter(step)
      case 'clock':
        return this.#setClock(step)
      case 'relay':
        this.#world.relay.replace(this.#keeper.started?.parts.states.position?.cursor ?? 0, step.before)
        return await this.#keeper.restart(step)
      case 'renumber':
        return this.#renumber(step)
      case 'condition':
        // What is left out for it comes only with the repository.
        if (step.manner === 'mixed-up' && this.#world.upkeep.listedAfterMs === undefined) return
        return this.#world.conditions.set(step.part, step.manner, step.forMs)
      case 'fail-write':
        return this.#world.storage.failNext(step.syncs)
      case 'lose':
        return this.#commit(this.#account(step), step.times, randomFrom(step.draw), false)
      case 'compact':
        this.#keeper.started?.parts.compaction.compact()
        return
      case 'seal':
        return void this.#seal()
      case 'watch':
        return await this.#watch(step)
      case 'join':
        return this.#subscribers[step.subscriber]?.join(step)
      case 'leave':
        return this.#subscribers[step.subscriber]?.leave()
      case 'pace':
        return this.#subscribers[step.subscriber]?.setPace(step.pace)
    }
  }

  #account({ account }: { account: number }): SimulatedAccount {
    const found = this.#accounts[account % this.#accounts.length]
    if (!found) throw new Error('a world has accounts')
    return found
  }

  #rev(): string {
    this.#micros = Math.max(this.#micros + 1, Math.floor(this.#world.time.nowMs * 1000))
    return tidAt(this.#micros)
  }

  get #rkeyPrefix(): string | undefined {
    return this.#script.bounds.areKeysLong ? 'r'.repeat(longKey) : undefined
  }

  #skipped(): number {
    return this.#random.below(8) === 0 ? this.#random.below(5) : 0
  }

  #marker({ did }: SimulatedAccount, kind: string, body: object): void {
    this.#ledger.expectMarker(this.#world.relay.emit(did, kind, { did, ...body }, this.#skipped()))
  }

  #isQuiet({ index }: SimulatedAccount): boolean {
    const { listedAfterMs, quietAccounts } = this.#world.upkeep
    return listedAfterMs !== undefined && index < quietAccounts
  }

  /** @param isPassedOn whether the relay tells of it. */
  #commit(account: SimulatedAccount, times: number, random: Random, isPassedOn = true): void {
    const { did, repo } = account
    account.isMuddled = !isPassedOn
    for (let n = 0; n < times; n++) {
      account.keepFormer()
      const signed = repo.commit(
        writesOf(
          repo.records().map(([path]) => path),
          random,
          this.#rkeyPrefix,
        ),
        this.#rev(),
      )
      const isHidden = account.status !== 'active'
      this.#ledger.expectCommit(signed, { isPassedOn, isHidden })
      if (isPassedOn)
        this.#world.relay.emit(did, 'commit', commitBody(signed), this.#skipped(), account.repo.signer)
      this.#heads.set(did, signed.commit)
    }
  }

  /**
   * What was signed with the key before, and did not come yet, is refused from now on. Of an account of which nothing is
   * known yet it is missing until its host is listed.
   */
  async #rotate(step: Of<'rotate'>): Promise<void> {
    const { gapMs, how } = step
    if (this.#world.upkeep.listedAfterMs === undefined) return
    const account = this.#account(step)
    const signer = account.changeKey()
    this.#ledger.account(account.did).mayBeRefused()
    await this.#pass(gapMs)
    account.repo.signer = signer
    if (how !== 'untold') this.#marker(account, 'identity', { handle: `account${account.index}.example.com` })
    if (how === 'stolen') this.#forge(step)
    this.#commit(account, 1, this.#random)
  }

  /** A commit that must give no row. A relay that is trusted is believed. */
  #forge(step: Pick<Of<'forge'>, 'account' | 'draw'>): void {
    const { draw } = step
    const { did, repo, signers } = this.#account(step)
    if (this.#script.bounds.isTrusting) return
    const { signer } = repo
    repo.signer = signers.at(-2) ?? signerOf('nobody')
    const record = { text: `forged ${draw}` }
    const [collection = ''] = watchedCollections
    const forged = repo.draft([{ action: 'create', collection, rkey: `f${draw}`, record }], this.#rev())
    repo.signer = signer
    this.#world.relay.emit(did, 'commit', commitBody(forged), this.#skipped())
  }

  /** A commit that its account has signed, and that must give no row for what is wrong with it. */
  #alter({ how, draw, ...step }: Of<'alter'>): void {
    const account = this.#account(step)
    const { did, repo } = account
    if (this.#script.bounds.isTrusting || repo.rev === null || account.isMuddled) return
    const paths = repo.records().map(([path]) => path)
    const signed = repo.draft(writesOf(paths, randomFrom(draw), this.#rkeyPrefix), this.#rev())
    const other = this.#account({ account: step.account + 1 }).did
    if (other === did) return
    const body = alteredBody(how, { signed, repo, other })
    // Nothing of this commit could be wrong in that way.
    if (isDeepStrictEqual(body, commitBody(signed))) return
    this.#ledger.account(did).mayRefill = true
    if (body['repo'] === did) this.#world.relay.emit(did, 'commit', body, this.#skipped())
    else this.#world.relay.emit(String(body['repo']), 'commit', body, this.#skipped())
  }

  /** The clock of the machine is ahead for a while, and set back then. */
  #setClock({ aheadMs, forMs }: Of<'clock'>): void {
    const { time } = this.#world
    time.aheadMs = aheadMs
    time.after(forMs, () => {
      time.aheadMs = 0
    })
  }

  /** What is sealed holds all that was there before. What fails of the disk ends the stream, whatever is made of it here. */
  async #seal(): Promise<void> {
    const stream = this.#keeper.started
    if (!stream) return
    const { archive } = stream.parts
    const { appendedSeq } = archive
    try {
      await archive.seal()
      await archive.whenDurable()
    } catch (error) {
      return void (this.#world.storage.disk.hasFailedWrite || stream.fail(error))
    }
    const sealedSeq = archive.segments.sealed.at(-1)?.header.maxSeq ?? 0
    const left = this.#ledger.rows.find(({ seq }) => seq > sealedSeq && seq <= appendedSeq)
    if (!left || stream.hasFailed) return
    this.#ledger.onBroken(`row ${left.seq} was there before a seal, and what is sealed ends at ${sealedSeq}`)
  }

  readonly #heads = new Map<string, Parameters<typeof syncBody>[2]>()

  /** Says again what the repository is. */
  #sync(account: SimulatedAccount): void {
    const { did, repo } = account
    const head = this.#heads.get(did)
    const { rev } = repo
    if (!head || rev === null || account.syncedRev === rev) return
    account.syncedRev = rev
    this.#ledger.expectMarker(this.#world.relay.emit(did, 'sync', syncBody(did, rev, head), this.#skipped()))
  }

  /** The relay begins its numbers again, once. */
  #renumber({ before }: Of<'renumber'>): void {
    const cursor = this.#keeper.started?.parts.states.position?.cursor
    if (this.#isRenumbered || cursor === undefined) return
    this.#isRenumbered = this.#world.relay.renumber(cursor, before)
  }

  async #plan({ filter, after }: Of<'plan'>): Promise<void> {
    const stream = this.#keeper.started
    if (!stream || stream.hasFailed) return
    const afterSeq = Math.min(after, this.#ledger.lastSeq)
    const request = { filter: filterOf(filter, this.#dids), afterSeq }
    const reading = readArchive(stream.parts.archive.segments, this.#ledger, request)
    try {
      const fault = await this.#world.time.until(reading, planMsMax)
      if (fault !== undefined) this.#ledger.onBroken(fault)
    } catch (error) {
      stream.fail(error)
    }
  }

  /** Lets time pass, or less: until a moment that is waited for has come. */
  async #wait({ ms, until }: Of<'wait'>): Promise<void> {
    if (until === undefined) return await this.#pass(ms)
    await this.#come(until, ms)
  }

  /** Ends the process, soon after a moment if one is given and comes. */
  async #restart({ at, ...ending }: Of<'restart'>): Promise<void> {
    await this.#come(at)
    await this.#keeper.restart(ending)
  }

  /** Says what is watched, at a moment if one is given and comes. */
  async #watch({ collection, isWatched, at }: Of<'watch'>): Promise<void> {
    await this.#come(at)
    const stream = this.#keeper.started
    const name =
      collection < changes
        ? changingCollections[collection % changingCollections.length]
        : watchedCollections[0]
    if (!stream || stream.hasFailed || name === undefined) return
    const { operator, watched } = stream.parts
    const fault = await operator.setWatched(name, isWatched)
    if (fault !== undefined) this.#ledger.onBroken(`A7: ${fault}`)
    this.#ledger.setWatched(watched.names())
  }

  async #come(at: Point | undefined, msMax = pointMsMax): Promise<void> {
    if (at === undefined) return
    const come = new Set<Point>()
    this.#onPoint = (point) => void come.add(point)
    await this.#world.time.run(msMax, () => come.has(at))
    this.#onPoint = () => {}
  }
}
