/** Plays a script: makes the world that it describes, does its steps, lets all be well, and says which promises broke. */
import { randomFrom, type Random } from '@tributary/testkit/disk'
import { tidAt, type SignedCommit } from '@tributary/testkit'
import { Checks } from './checks.ts'
import type { RelayConditions } from './conditions.ts'
import { Consumer } from './consumer.ts'
import { flood, forge, fork, lie, spoil, straggle } from './faulty-hosts.ts'
import { finish } from './finish.ts'
import { accountDraft, commitDraft, identityDraft, syncDraft } from './frames.ts'
import { didOf, Directory, SimulatedAccount, SimulatedHost, SimulatedRelay } from './hosts.ts'
import { RelayProcess, type World } from './relay-process.ts'
import { livePosition } from '../../src/sources/source.ts'
import { consumersMax, cursors, moveOrders, type Script, type Step } from './script.ts'
import { Storage } from './storage.ts'
import {
  Conditions,
  ProcessKeeper,
  runSimulation,
  VirtualTime,
  type Result,
  type Simulation,
} from '@tributary/testkit/simulation'
import { Watch } from './watch.ts'
import { wrongDraft } from './wrong-messages.ts'
import { commitOf } from './writes.ts'

type Of<N extends Step['do']> = Extract<Step, { do: N }>

/** How long the world has to be as it should be before all must be. */
const settle = { stepMs: 20_000, feltMs: 150_000, msMax: 3 * 3_600_000 }
const keepAll = { keepMs: 72 * 3_600_000, fileBytes: 40_000 }

/** Plays a script. One at a time: what nobody catches meanwhile is taken for the relay's. */
export async function play(script: Script): Promise<Result> {
  return await runSimulation(new Run(script))
}

class Run implements Simulation {
  readonly #script: Script
  readonly #world: World
  readonly #watch: Watch
  readonly #checks: Checks
  readonly #accounts: SimulatedAccount[] = []
  readonly #consumers: Consumer[]
  /** Another relay among the sources. */
  readonly #forwarder: SimulatedRelay | undefined
  readonly #keeper: ProcessKeeper<RelayProcess>
  /** Accounts that have written once more in the end because a former host was believed. */
  readonly #cleared = new Set<SimulatedAccount>()
  #micros = 0

  constructor(script: Script) {
    this.#script = script
    const time = new VirtualTime()
    const random = randomFrom(script.seed ^ 0x5eed)
    const conditions: RelayConditions = new Conditions(time, random)
    const { identityWaitMs, retention = keepAll, relayed, isLate = false } = script
    const hosts = Array.from(
      { length: script.hosts },
      (_, index) => new SimulatedHost(index, time, index < script.hosts - (relayed ?? 0)),
    )
    const storage = new Storage(random, conditions, script.quota)
    const directory = new Directory()
    directory.areDocumentsOdd = isLate
    const sources = hosts.filter(({ isRead }) => isRead)
    if (relayed !== undefined) {
      const forwarder = new SimulatedRelay(hosts.length, time, directory.accounts)
      for (const host of hosts) host.onEntry = (entry) => forwarder.forward(entry)
      this.#forwarder = forwarder
      sources.push(forwarder)
    }
    this.#world = {
      time,
      random,
      conditions,
      hosts,
      sources,
      directory,
      storage,
      logPast: { seq: 0, timeMs: 0 },
      aheadMsMax: Math.max(0, ...script.steps.map((step) => (step.do === 'clock' ? step.aheadMs : 0))),
      identityWaitMs,
      retention,
      isLate,
    }
    this.#watch = new Watch(this.#world)
    this.#checks = new Checks(this.#world, this.#watch)
    this.#consumers = Array.from(
      { length: consumersMax.known + consumersMax.crowd },
      (_, index) => new Consumer(index, script.seed, this.#watch),
    )
    this.#keeper = new ProcessKeeper({
      name: 'relay',
      time,
      storage,
      broken: this.#watch.broken,
      onBroken: this.#watch.onBroken,
      start: () => RelayProcess.start(this.#world, this.#watch),
      onStarted: (relay) => {
        // Its disk may have failed already.
        if (!relay.hasStarted) return
        this.#checks.started(relay)
        for (const consumer of this.#consumers) consumer.attach(relay)
      },
      onKill: () => {
        this.#checks.remember(this.#keeper.process, false)
        for (const consumer of this.#consumers) consumer.detach()
      },
      onEnded: () => {
        this.#checks.remember(this.#keeper.process, true)
        this.#watch.ended()
      },
      look: () => this.#look(),
    })
    for (let index = 0; index < script.accounts; index++) this.#addAccount(index)
  }

  onUnhandled(error: unknown): void {
    const relay = this.#keeper.process
    if (relay) relay.onUnhandled(error)
    else this.#watch.onBroken(`A4: ${String(error)}`)
  }

  async run(): Promise<Result> {
    const { broken, trace } = this.#watch
    await this.#keeper.start()
    for (const step of this.#script.steps) {
      if (broken.length > 0) break
      this.#watch.trace.push(JSON.stringify(step))
      await this.#do(step)
      await this.#pass(0)
    }
    if (broken.length === 0) await this.#settle()
    if (broken.length === 0 && this.#script.isLate) await this.#finish()
    await this.#keeper.kill()
    return { broken, trace }
  }

  [Symbol.dispose](): void {
    this.#world.storage[Symbol.dispose]()
  }

  /** All is as it should be from now on, and after a while it must show. */
  async #settle(): Promise<void> {
    const { conditions, time, storage } = this.#world
    conditions.settle()
    storage.failNext(Infinity)
    time.aheadMs = 0
    this.#world.directory.hanging.clear()
    for (const consumer of this.#consumers) consumer.setPace('fast')
    this.#clear()
    // A wrong signature is not made up for when another relay sends it, since it may have made up the message. The next
    // commit shows consumers that something is missing, and the next sync that all is there.
    const missed = this.#accounts.filter(({ host, isUnsettled }) => isUnsettled && !host.isRead)
    if (missed.length > 0) await this.#pass(settle.feltMs)
    for (const account of missed) {
      this.#commit(account, 1)
      if (account.status === 'active') account.host.emit(syncDraft(account.did, account.head))
    }
    await this.#sayAgain()
    const untilMs = time.nowMs + settle.msMax
    let faults: string[] = []
    do {
      await this.#pass(settle.stepMs)
      if (this.#watch.broken.length > 0) return
      // A commit of a former host may have been under way, with a document that still named this host.
      this.#clear()
      const relay = this.#keeper.process
      faults = relay ? this.#checks.settled(relay) : ['A4: the relay does not start']
      faults.push(...this.#consumers.flatMap((consumer) => consumer.faults()))
    } while (faults.length > 0 && time.nowMs < untilMs)
    for (const fault of faults) this.#watch.onBroken(fault)
  }

  /** When the last word of an account is lost that has moved, or was not active, or is new, its next one tells of it. */
  async #sayAgain(): Promise<void> {
    if (!this.#script.steps.some((step) => step.do === 'forget' || step.do === 'again')) return
    await this.#pass(settle.feltMs)
    const known = this.#keeper.started?.parts.store.accounts
    for (const account of this.#accounts.filter(({ hasLost }) => hasLost))
      if (account.hasChanged || !known?.get(account.did)) this.#setStatus(account, account.status)
  }

  /** Nobody is asked for more than what is missing. */
  async #finish(): Promise<void> {
    const relay = this.#keeper.started
    if (!relay) return
    await finish({
      accounts: this.#accounts,
      watch: this.#watch,
      relay,
      pass: async (ms) => await this.#pass(ms),
      setStatus: (account, word) => this.#setStatus(account, word),
      misses: (account) => {
        account.host.words.set(account.did, 'active')
        this.#spoil(account, { how: 'flag', draw: 1 })
      },
    })
  }

  /**
   * A former host was believed, as the directory had it, and its last commit may be newer than the account's own, which
   * cannot follow any more. The next one can: each account writes once.
   */
  #clear(): void {
    for (const account of this.#accounts) {
      if (!this.#watch.muddled.has(account.did) || this.#cleared.has(account)) continue
      this.#cleared.add(account)
      this.#commit(account, 1)
    }
  }

  async #pass(ms: number): Promise<void> {
    await this.#keeper.pass(ms)
  }

  #look(): void {
    const relay = this.#keeper.started
    if (!relay) return
    this.#checks.now(relay)
    for (const consumer of this.#consumers) consumer.now(this.#world.time.nowMs)
  }

  async #do(step: Step): Promise<void> {
    switch (step.do) {
      case 'wait':
        return await this.#pass(step.ms)
      case 'restart':
        return await this.#keeper.restart(step)
      case 'move':
        return await this.#move(step)
      case 'rotate':
        return await this.#rotate(step)
      case 'commit':
        return this.#commit(this.#account(step), step.times, randomFrom(step.draw))
      case 'sync': {
        const account = this.#account(step)
        if (account.status === 'active') account.host.emit(syncDraft(account.did, account.head))
        return
      }
      case 'identity': {
        const account = this.#account(step)
        account.host.emit(identityDraft(account.did, account.handle))
        return
      }
      case 'status':
        return this.#setStatus(this.#account(step), step.word)
      case 'straggle':
        return straggle(this.#account(step), this.#making(step))
      case 'forge':
        return forge(this.#account(step), this.#account({ account: step.victim }), this.#making(step))
      case 'lie':
        return lie(this.#account(step), this.#account({ account: step.victim }), {
          ...this.#making(step),
          forwarder: this.#forwarder,
        })
      case 'spoil':
        return this.#spoil(this.#account(step), step)
      case 'fork':
        return fork(this.#account(step), this.#making(step))
      case 'flood':
        return flood(this.#world, this.#host(step.host), this.#making(step))
      case 'condition':
        return this.#setCondition(step)
      case 'fail-write':
        return this.#world.storage.failNext(step.syncs)
      case 'exclude': {
        const relay = this.#keeper.started
        relay
          ?.setLocalStatus(this.#account(step).did, step.status)
          .catch((error: unknown) => relay.fail(error))
        return
      }
      case 'recheck': {
        const relay = this.#keeper.started
        relay?.parts.recovery.recheck(this.#account(step).did).catch((error: unknown) => relay.fail(error))
        return
      }
      case 'retention':
        void this.#keeper.started?.parts.log.applyRetention()
        return
      case 'quota':
        return this.#keeper.started?.raiseQuota(step.more)
      case 'pause':
        return this.#keeper.started?.pause(step.source, step.forMs)
      case 'ban':
        return this.#keeper.started?.pause(step.source, step.forMs, 'banned')
      case 'newcomer':
        return this.#addAccount(this.#accounts.length)
      case 'again':
        return this.#readAgain(step)
      case 'forget': {
        const host = this.#source(step.source)
        host.keptFrom = Math.max(host.keptFrom, host.journal.length - step.kept)
        return
      }
      case 'clock':
        return this.#setClock(step)
      case 'wrong': {
        const account = this.#account(step)
        // Ahead of any clock.
        const nowMs = this.#world.time.nowMs + this.#world.aheadMsMax
        const making = { rev: this.#rev(), nowMs, random: randomFrom(step.draw) }
        if (account.status === 'active') account.host.emit(wrongDraft(step.name, account, making))
        return
      }
      case 'join':
        return this.#consumers[step.consumer]?.join(step)
      case 'leave':
        return this.#consumers[step.consumer]?.leave()
      case 'pace':
        return this.#consumers[step.consumer]?.setPace(step.pace)
      case 'chat':
        return this.#consumers[step.consumer]?.chat(step.how)
      case 'crowd':
        return this.#crowd(step)
    }
  }

  /** So many are there from now on, and no others of the crowd. */
  #crowd({ count, draw }: Of<'crowd'>): void {
    const random = randomFrom(draw)
    for (const [index, consumer] of this.#consumers.slice(consumersMax.known).entries()) {
      const cursor = random.pick(cursors)
      if (index >= count) consumer.leave()
      else if (!consumer.isJoined)
        consumer.join({ do: 'join', consumer: index, cursor, framing: 'v0', pace: 'fast' })
    }
  }

  #account({ account }: { account: number }): SimulatedAccount {
    const found = this.#accounts[account % this.#accounts.length]
    if (!found) throw new Error('a world has accounts')
    return found
  }

  #host(index: number, hosts = this.#world.hosts): SimulatedHost {
    const host = hosts[index % hosts.length]
    if (!host) throw new Error('a world has hosts')
    return host
  }

  #source(index: number): SimulatedHost {
    return this.#host(index, this.#world.sources)
  }

  #readAgain({ source, from, draw }: Of<'again'>): void {
    const relay = this.#keeper.started
    if (!relay) return
    const host = this.#source(source)
    const after = host.journal[draw % host.journal.length]?.seq ?? 0
    const position = { oldest: 0, live: livePosition, after }[from]
    this.#watch.onLost(host.journal.filter(({ seq }) => from === 'live' || seq <= position))
    relay.readAgain(host, position)
    // Documents must be read again for what was signed with a former key or sent by a former host.
    for (const account of this.#accounts) account.isUnsettled = true
  }

  #setClock({ aheadMs, forMs }: Of<'clock'>): void {
    const { conditions, time } = this.#world
    time.aheadMs = aheadMs
    conditions.set('clock', 'ahead', forMs)
    time.after(forMs, () => (time.aheadMs = 0))
  }

  #addAccount(index: number): void {
    const account = new SimulatedAccount(index, didOf(`${this.#script.seed} ${index}`), this.#host(index))
    this.#accounts.push(account)
    this.#world.directory.accounts.set(account.did, account)
    const { host, did } = account
    host.words.set(did, 'active')
    host.emit(identityDraft(did, account.handle))
    host.emit(accountDraft(did, 'active'))
    this.#commit(account, 1)
    host.emit(syncDraft(did, account.head))
  }

  /** Gives a step what its message is made with. */
  #making<S>(step: S): S & { newRev: () => string } {
    return { ...step, newRev: () => this.#rev() }
  }

  #rev(): string {
    this.#micros = Math.max(this.#micros + 1, Math.floor(this.#world.time.nowMs * 1000))
    return tidAt(this.#micros)
  }

  #commit(account: SimulatedAccount, times: number, random: Random = this.#world.random): void {
    if (account.status !== 'active') return
    for (let n = 0; n < times; n++) {
      const skipped = random.below(8) === 0 ? random.below(5) : 0
      this.#send(account, commitOf(account.repo, this.#rev(), random), skipped)
    }
  }

  /** The host of an account has a new commit of it, and says so. */
  #send(account: SimulatedAccount, signed: SignedCommit, skipped = 0): void {
    const draft = commitDraft(signed)
    if (draft.head) account.host.keep(account.did, draft.head)
    account.lastCommit = draft.body
    account.host.emit(draft, skipped)
  }

  /** The same records under a new commit, of which hosts tell with a `#sync`. */
  #signAgain({ repo, host, did, status }: SimulatedAccount): void {
    if (status !== 'active') return
    const { head } = commitDraft(repo.commit([], this.#rev()))
    if (!head) return
    host.keep(did, head)
    host.emit(syncDraft(did, head))
  }

  #setStatus(account: SimulatedAccount, word: string): void {
    const { did, host } = account
    account.hasChanged = true
    // What another relay forwards of it has its document read again.
    if (word !== 'active' && host.isRead && this.#forwarder) account.isUnsettled = true
    host.words.set(did, word)
    host.emit(accountDraft(did, word))
    // As hosts do when an account is back.
    if (word === 'active') host.emit(syncDraft(did, account.head))
  }

  /** The directory knows the new key before the host signs with it. */
  async #rotate(step: Of<'rotate'>): Promise<void> {
    const account = this.#account(step)
    if (account.status !== 'active') return
    const signer = account.nextSigner()
    account.isUnsettled = true
    account.documents.push({ host: account.host, signer })
    account.changedAtMs = this.#world.time.nowMs
    await this.#pass(step.gapMs)
    account.host.emit(identityDraft(account.did, account.handle))
    account.repo.signer = signer
    this.#signAgain(account)
  }

  /** The old host's word, the new host's and the directory's in any order. The new host speaks after the directory, too. */
  async #move({ to, order, gapMs, draw, ...step }: Of<'move'>): Promise<void> {
    const account = this.#account(step)
    const { did, host: from, handle, status, repo } = account
    const host = this.#host(to)
    if (host === from || status !== 'active' || account.strangers.has(host)) return
    const signer = account.nextSigner()
    account.isUnsettled = account.hasChanged = true
    account.changedAtMs = this.#world.time.nowMs
    const random = randomFrom(draw)
    const head = account.head
    const oldSigner = repo.signer
    const say: Record<'old' | 'new' | 'directory', () => void> = {
      old: () => {
        from.words.set(did, 'deactivated')
        from.emit(accountDraft(did, 'deactivated'))
      },
      new: () => {
        host.words.set(did, 'active')
        host.heads.set(did, [...(host.heads.get(did) ?? []), head])
        account.host = host
        account.formerHost = from
        account.formerSigner = oldSigner
        repo.signer = signer
        host.emit(accountDraft(did, 'active'))
        // What the old host signed cannot be checked any more.
        if (random.next() < 0.5) this.#commit(account, 1, random)
        else this.#signAgain(account)
        host.emit(syncDraft(did, account.head))
      },
      directory: () => {
        account.documents.push({ host, signer })
        account.changedAtMs = this.#world.time.nowMs
        this.#forwarder?.moved(account)
      },
    }
    for (const word of moveOrders[order % moveOrders.length] ?? []) {
      say[word]()
      await this.#pass(gapMs)
    }
    this.#forwarder?.moved(account)
    host.emit(identityDraft(did, handle))
  }

  #spoil(account: SimulatedAccount, { how, draw }: Pick<Of<'spoil'>, 'how' | 'draw'>): void {
    spoil(account, { ...this.#making({ how, draw }), forwarder: this.#forwarder })
  }

  #setCondition({ part, manner, forMs, ...step }: Of<'condition'>): void {
    const { conditions } = this.#world
    if (part === 'directory' && ['missing', 'older', 'of another'].includes(manner))
      for (const account of this.#accounts)
        account.isUnsettled ||= step.of === undefined || account === this.#account({ account: step.of })
    if (step.of === undefined) return conditions.set(part, manner, forMs)
    const { hosts, sources } = this.#world
    const places = part === 'directory' ? this.#accounts : part === 'link' ? sources : hosts
    const index = places[step.of % places.length]?.index ?? 0
    conditions.set(`${part} ${index}`, manner, forMs)
  }
}
