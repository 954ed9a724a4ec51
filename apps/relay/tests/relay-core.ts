/**
 * The relay from its sources' messages to its log and state on the disk, without sockets, in a small world: hosts that
 * send what a test says, accounts that sign, a directory, and a clock that the test moves on. It can be killed: the next
 * one starts with what was on the disk then, and every host sends again what is above its cursor.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createResolver, FetchError } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { isSigned, readMessage, trustMessage } from '@tributary/repo-verify'
import { readSettings } from '@tributary/settings'
import { createLogger } from '@tributary/telemetry'
import {
  commitBody,
  encodeCar,
  encodeEvent,
  eventually,
  nextTid,
  SignedRepo,
  Signer,
  type EventBody,
} from '@tributary/testkit'
import { AccountRecovery } from '../src/accounts/account-recovery.ts'
import { HostInquiry, type HostInquiryOptions } from '../src/inquiry/host-inquiry.ts'
import { openStorage, type RelayStorage } from '../src/open-storage.ts'
import type { PipelineObserver } from '../src/pipeline/pipeline-observer.ts'
import { Pipeline } from '../src/pipeline/pipeline.ts'
import { newSourcePolicy, type DesiredState, type SourcePolicy } from '../src/policy/source-policy.ts'
import { relaySettings } from '../src/settings.ts'
import { SourceReader } from '../src/sources/source-reader.ts'
import type { Source } from '../src/sources/source.ts'
import type { Account } from '../src/state/account.ts'
import { newVerification } from '../src/verify/verification.ts'
import { sampleMessage } from './sample-message.ts'
import { TestClock } from './test-clock.ts'

const collection = 'org.impact.one'

interface Running {
  storage: RelayStorage
  pipeline: Pipeline
  recovery: AccountRecovery
  resources: AsyncDisposableStack
}

type InquiryFetch = NonNullable<HostInquiryOptions['fetch']>

export class RelayCore implements AsyncDisposable {
  /** Begins now, because commits are made with the time of the machine. */
  readonly clock = new TestClock(Date.now())
  readonly repo: SignedRepo
  readonly did: Did
  /** The host that the directory names for the account. Undefined: it says that there is no such account. */
  home: string | undefined
  /** The key in the account's document. */
  key: Signer
  /** The host that has the repository. Default: `home`. */
  repoAt: string | undefined
  /** The directory answers that it is away. It never answers for other accounts than this one. */
  isDirectoryAway = false
  /** How long documents of other accounts are waited for. Default: they never come. */
  otherDocumentsMs = Infinity
  /** No host answers questions. */
  areHostsSilent = false
  /** Sources that are not read now, and why. */
  readonly paused = new Set<string>()
  /** Questions to hosts about the account. */
  asked = 0
  /** Called for each of them, before the host answers. */
  onAsked: () => unknown = () => undefined
  /** Times that the directory was asked for the account's document. */
  documentsRead = 0
  /** No source may be read, because too much is under way. */
  isPressed = false
  /** Refusals since the start, as `HOST REASON`. */
  readonly refused: string[] = []
  readonly #hosts: readonly string[]
  readonly #sent = new Map<string, { seq: number; bytes: Buffer }[]>()
  readonly #root = mkdtempSync(join(tmpdir(), 'relay-core-'))
  #generation = 0
  #running: Running | undefined

  readonly #env: Readonly<Record<string, string>>

  private constructor(hosts: readonly string[], env: Readonly<Record<string, string>>) {
    this.#hosts = hosts
    this.#env = env
    this.home = hosts[0]
    this.did = 'did:plc:movingmovingmovingmoving' as Did // of the right form
    this.key = Signer.fromSeed('moving')
    this.repo = new SignedRepo(this.did, this.key)
  }

  /**
   * @param hosts of the sources. The account is at the first. Those whose name begins with `relay` forward others.
   * @param env further settings.
   */
  static async start(
    hosts: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<RelayCore> {
    const core = new RelayCore(hosts, env)
    await core.#start()
    return core
  }

  get #now(): Running {
    return this.#running ?? assert.fail('it does not run')
  }

  get account(): Account {
    return this.#now.storage.store.accounts.get(this.did) ?? assert.fail('nothing is known of the account')
  }

  /** Accounts that are remembered. */
  get accounts(): number {
    return this.#now.storage.store.accounts.size
  }

  source(host: string): Source {
    return this.#now.storage.sources.byHost(host) ?? assert.fail(`no source ${host}`)
  }

  /** A host sends an event. @param isRead whether the relay is connected. */
  send(host: string, type: string, body: EventBody, isRead = true): void {
    const sent = this.#sent.get(host) ?? []
    this.#sent.set(host, sent)
    const seq = sent.length + 1
    const time = new Date(this.clock.nowMs()).toISOString()
    sent.push({ seq, bytes: Buffer.from(encodeEvent(type, { seq, time, ...body })) })
    if (isRead) this.#deliver(host, seq - 1)
  }

  /** The account writes. @returns what its `#commit` says. */
  commit(): EventBody {
    return commitBody(
      this.repo.commit([{ action: 'create', collection, rkey: nextTid(), record: { title: nextTid() } }]),
    )
  }

  /** A host sends so many events that are refused at once, within one turn of the event loop. */
  flood(host: string, count: number): void {
    const message = sampleMessage(1)
    for (let seq = 1; seq <= count; seq++)
      this.#now.pipeline.receive(this.source(host), { ...message, upstreamSeq: seq }, Infinity, seq - 1)
  }

  says(host: string, status?: string, isRead = true): void {
    const body = status === undefined ? { active: true } : { active: false, status }
    this.send(host, '#account', { did: this.did, ...body }, isRead)
  }

  /** A connection of a host opens, which has lost what came after our position, and sends so much of what it has kept. */
  lose(host: string, keptSeconds = 0): void {
    const source = this.source(host)
    source.reading.open()
    source.lastEventAtMs = this.clock.nowMs()
    source.eventAgeMs = keptSeconds * 1000
    const notice = readMessage(Buffer.from(encodeEvent('#info', { name: 'OutdatedCursor' })))
    if (!notice.ok || notice.kind !== 'info') assert.fail('it is no notice')
    new SourceReader(source, this.#now.pipeline).takeNotice(notice)
  }

  /** A host is read again from its oldest event, as after its numbering began anew. */
  readAgain(host: string): void {
    this.source(host).beginEpoch(this.clock.nowMs(), 0)
    this.#deliver(host, 0)
  }

  /** An operator has a host read again from its oldest event, and the process is killed before the state has it. */
  async resetAndKill(host: string): Promise<void> {
    const { id, epoch } = this.source(host)
    this.#now.storage.policy.storePosition(id, { epoch: epoch + 1, cursor: 0 })
    await this.kill()
  }

  /** An operator removes a host, and the process is killed before the state has it. */
  async removeAndKill(host: string): Promise<void> {
    const { id, policy } = this.source(host)
    this.#now.storage.policy.updateSource(id, { ...policy, desired: 'removed' })
    await this.kill()
  }

  /** Bans a source, or another host. */
  ban(host: string): void {
    const { policy, sources } = this.#now.storage
    const source = sources.byHost(host)
    if (source) source.policy = { ...source.policy, desired: 'banned' }
    else policy.putDomainBan(host, '')
    policy.reload()
  }

  /** A host has so many other accounts. */
  crowd(host: string, count: number): void {
    const { accounts } = this.#now.storage.store
    for (let n = 0; n < count; n++)
      accounts.assign(accounts.take(`did:web:${n}.${host}` as Did), this.source(host).id, 'active') // only a name here
  }

  /** How many accounts of a host may be active. */
  setQuota(host: string, accountQuota: number): void {
    const source = this.source(host)
    this.#now.storage.sources.setPolicy(source, { ...source.policy, accountQuota }, source.revision + 1)
  }

  /** Accounts of a host that hold a slot, and those that wait for one. */
  slots(host: string): { active: number; waiting: number } {
    const { accounts } = this.#now.storage.store
    const { id } = this.source(host)
    return { active: accounts.activeOf(id), waiting: accounts.throttledCountOf(id) }
  }

  /** Asks the account's host for its status, as an operator may. */
  async recheck(): Promise<void> {
    await this.#now.recovery.recheck(this.did)
  }

  /** Ends recovery, as a stop of the relay does first. */
  endRecovery(): void {
    this.#now.recovery[Symbol.dispose]()
  }

  /** An operator takes the account down. */
  async takeDown(): Promise<void> {
    await this.#now.recovery.setLocalStatus(this.did, 'takendown')
  }

  /** Lifts the ban of a host that is no source. */
  unban(host: string): void {
    const { storage, recovery } = this.#now
    storage.policy.deleteDomainBan(host)
    storage.policy.reload()
    recovery.lookAgain()
  }

  /** Pauses, removes or enables a source. */
  decide(host: string, desired: DesiredState): void {
    const source = this.source(host)
    const { storage, recovery } = this.#now
    const policy = { ...source.policy, desired }
    storage.sources.setPolicy(source, policy, storage.policy.updateSource(source.id, policy))
    if (source.isWanted) recovery.lookAgain(source)
  }

  /** An operator moves a source on by so many numbers past what was received of it. */
  moveOn(host: string, numbers: number): void {
    const { policy, trail } = this.#now.storage
    const source = this.source(host)
    const cursor = source.receivedSeq + numbers
    policy.storePosition(source.id, { epoch: source.epoch, cursor })
    source.skipTo(cursor)
    trail.storeSource(source)
  }

  /** Lets a minute pass, or less if a `#sync` of the account's current commit is logged before. */
  async untilSync(): Promise<void> {
    const wanted = `#sync ${this.repo.rev}`
    for (let second = 0; second < 60 && !(await this.told()).includes(wanted); second++) await this.pass(1)
    assert.equal((await this.told()).at(-1), wanted)
  }

  /** Resolves when nothing of the account is under way. */
  async settled(): Promise<void> {
    const { storage } = this.#now
    await eventually(async () => {
      await this.clock.pass(0)
      return (storage.store.accounts.get(this.did)?.underWay ?? 0) === 0
    })
    await storage.log.flush()
  }

  /** Lets time pass, a second after the other, with what threads do meanwhile. */
  async pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      await this.clock.pass(1000)
      await this.#now.storage.log.flush()
    }
  }

  /** Writes the state as it is. */
  async writeState(): Promise<void> {
    const { log, trail, store } = this.#now.storage
    await log.flush()
    await store.whenWritten()
    trail.flush()
    await store.whenWritten()
  }

  /** An event of an account whose document never comes: the cursor of its host stays before it. */
  sendStuck(host: string): void {
    this.send(host, '#account', { did: `did:plc:${'stuck'.padEnd(24, 'a')}`, active: true })
  }

  /**
   * Goes on as after a kill of the process at this moment. What came is in the log; the state is as it was written last.
   * @param isAnyoneSending whether the hosts send again what is above their cursors.
   */
  async kill({ isAnyoneSending = true } = {}): Promise<void> {
    const { storage, resources } = this.#now
    await storage.log.flush()
    await storage.store.whenWritten()
    const before = this.#directory
    this.#generation++
    cpSync(before, this.#directory, { recursive: true })
    await resources.disposeAsync()
    this.refused.length = 0
    await this.#start()
    if (isAnyoneSending) for (const host of this.#hosts) this.#deliver(host, this.source(host).cursor)
  }

  /** What the log says of the account, in brief. */
  async told(): Promise<string[]> {
    const { log } = this.#now.storage
    await log.flush()
    const told: string[] = []
    for await (const slice of log.replay(0))
      for (let row = 0; row < slice.count; row++) {
        const frame = slice.payloadAt(row)
        const short = frame.readUInt8(1)
        const message = readMessage(frame.subarray(short < 126 ? 2 : short === 126 ? 4 : 10))
        const event = message.ok && isSigned(message) ? trustMessage(message) : message
        if (!event.ok || !('did' in event) || event.did !== this.did) continue
        const { kind } = event
        const what = kind === 'account' ? (event.status ?? 'active') : kind === 'identity' ? '' : event.rev
        told.push(`#${kind} ${what}`.trim())
      }
    return told
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#running?.resources.disposeAsync()
    rmSync(this.#root, { recursive: true })
  }

  get #directory(): string {
    return join(this.#root, String(this.#generation))
  }

  #deliver(host: string, afterSeq: number): void {
    let last = 0
    for (const { seq, bytes } of this.#sent.get(host) ?? [])
      if (seq > afterSeq)
        last = this.#now.pipeline.receive(
          this.source(host),
          readMessage(Buffer.from(bytes)),
          bytes.length,
          last,
        )
  }

  async #start(): Promise<void> {
    const { clock } = this
    const logger = createLogger('relay', { level: 'silent' })
    const fail = (error: Error): never => {
      throw error
    }
    const env = {
      TRIBUTARY_RELAY_DATA_DIRECTORY: this.#directory,
      TRIBUTARY_RELAY_IDENTITY_WAIT_SECONDS: '1',
      ...this.#env,
    }
    const settings = readSettings(relaySettings, { env })
    const resources = new AsyncDisposableStack()
    const storage = await openStorage(settings, { logger, clock, onSync: () => {}, fail }, resources)
    const { log, store, policy, sources, trail } = storage
    for (const host of this.#hosts)
      if (!sources.byHost(host))
        sources.add(
          policy.insertSource({ host, url: `wss://${host}` }, policyOf(host), { countsForDay: false }),
        )
    const resolver = createResolver({
      plcUrl: 'https://plc.example.com',
      allowedPrivateHosts: [],
      store: store.identities,
      nowMs: () => clock.nowMs(),
      delay: async (ms) => await clock.sleep(ms),
      fetch: async (url) => (url.endsWith(this.did) ? this.#document() : await this.#noDocument()),
    })
    const fetch: InquiryFetch = async (url, _, take) => this.#answer(new URL(url), take)
    const inquiry = new HostInquiry({ resolver, allowedPrivateHosts: [], userAgent: '', clock, fetch })
    const recovery = new AccountRecovery({
      log,
      accounts: store.accounts,
      sources,
      trail,
      resolver,
      inquiry,
      clock,
      onDefect: (_, error) => assert.fail(String(error)),
    })
    const pipeline = new Pipeline({
      clock,
      log,
      accounts: store.accounts,
      resolver,
      inquiry,
      recovery,
      trail,
      verification: newVerification({ workers: 1 }),
      strict: true,
      identityWaitMsMax: settings.identityWaitSeconds * 1000,
      takeUnheard: (did) => sources.takeUnheard(did),
      forwardersOf: (did) => sources.forwardersOf(did),
      speakerOf: ({ sourceId }) => sources.byId(sourceId),
      refusalOfForwarded: (host) => {
        if (sources.isBanned(host)) return 'host-banned'
        const source = sources.byHost(host)
        return source?.policy.kind === 'pds' && source.isWanted ? 'direct-source' : undefined
      },
      observer: this.#observer(),
    })
    pipeline.onPressure((isPressed) => void (this.isPressed = isPressed))
    resources.defer(() => pipeline.close())
    resources.use(recovery).start(pipeline)
    sources.onRemoved((source) => recovery.takeOver(source))
    this.#running = { storage, pipeline, recovery, resources }
  }

  #observer(): PipelineObserver {
    const nothing = (): void => {}
    return {
      onReceived: nothing,
      onRefused: ({ host }, reason) => void this.refused.push(`${host} ${reason}`),
      onRepeated: nothing,
      onWaived: nothing,
      onDiscontinuity: nothing,
      onDurable: nothing,
      onIdentityFault: nothing,
      onStatus: nothing,
      onPaused: ({ host }, reason, isPaused) => this.paused[isPaused ? 'add' : 'delete'](`${host} ${reason}`),
      onInternalError: (_, error) => assert.fail(String(error)),
    }
  }

  async #noDocument(): Promise<never> {
    if (this.otherDocumentsMs === Infinity) return new Promise<never>(() => undefined)
    await this.clock.sleep(this.otherDocumentsMs)
    throw new FetchError('it took too long')
  }

  #document(): { status: number; headers: Record<string, string>; body: Buffer } {
    this.documentsRead++
    if (this.isDirectoryAway) throw new FetchError('the directory is away')
    const { did, home, key } = this
    if (home === undefined) return { status: 404, headers: {}, body: Buffer.alloc(0) }
    const document = {
      id: did,
      verificationMethod: [
        {
          id: `${did}#atproto`,
          type: 'Multikey',
          controller: did,
          publicKeyMultibase: key.did().slice('did:key:'.length),
        },
      ],
      service: [
        { id: '#atproto_pds', type: 'AtprotoPersonalDataServer', serviceEndpoint: `https://${home}` },
      ],
    }
    return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(document)) }
  }

  #answer({ host, pathname }: URL, take: Parameters<InquiryFetch>[2]): Awaited<ReturnType<InquiryFetch>> {
    this.asked++
    this.onAsked()
    if (this.areHostsSilent) throw new FetchError('the host is silent')
    const has = host === (this.repoAt ?? this.home)
    const answer = (status: number, body: Uint8Array) => {
      const head = { status, headers: {} }
      void take(Buffer.from(body), head)
      return head
    }
    const json = (status: number, body: unknown) => answer(status, Buffer.from(JSON.stringify(body)))
    if (!has) return json(400, { error: 'RepoNotFound' })
    if (pathname.endsWith('getRepoStatus')) return json(200, { did: this.did, active: true })
    const { head } = this.repo
    return answer(200, encodeCar(head.cid, [head]))
  }
}

function policyOf(host: string): SourcePolicy {
  return { ...newSourcePolicy, kind: host.startsWith('relay') ? 'relay' : 'pds' }
}
