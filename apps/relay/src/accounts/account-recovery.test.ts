import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Did } from '@tributary/protocol'
import { sampleSource } from '../../tests/sample-source.ts'
import { TestClock } from '../../tests/test-clock.ts'
import type { Source } from '../sources/source.ts'
import type { Account } from '../state/account.ts'
import { AccountTable } from '../state/account-table.ts'
import { AccountRecovery, type AccountRecoveryOptions, type RecoveryPipeline } from './account-recovery.ts'

/** Accounts of one source whose hosts never answer. */
class Ward {
  readonly clock = new TestClock()
  readonly accounts = new AccountTable()
  readonly source: Source = sampleSource(() => this.clock.nowMs())
  readonly hostOf = new Map<Did, string>()
  /** Documents that were looked up. */
  peeks = 0
  readonly recovery: AccountRecovery
  /** Hosts that were asked for the status of an account. */
  readonly asked: string[] = []
  /** Reads the document of an account. Default: it never comes. */
  locate: (did: Did) => Promise<unknown> = () => new Promise(() => {})
  readonly #statusAt = async ({ pdsHost }: { pdsHost: string }): Promise<string> => {
    this.asked.push(pdsHost)
    return await new Promise(() => {})
  }

  constructor(kind: 'pds' | 'relay' = 'pds') {
    const { clock, accounts, source } = this
    source.policy = { ...source.policy, kind }
    const options = {
      accounts,
      clock,
      sources: {
        byId: () => source,
        byHost: (host: string) => (host === source.host ? source : undefined),
        isBanned: () => false,
        sources: [source],
      },
      resolver: {
        peek: (did: Did) => {
          this.peeks++
          const pdsHost = this.hostOf.get(did)
          return pdsHost === undefined ? undefined : { did, pdsHost }
        },
      },
      inquiry: { locate: async (did: Did) => await this.locate(did), statusAt: this.#statusAt },
      onDefect: (_: Did, error: unknown) => assert.fail(String(error)),
    } as unknown as AccountRecoveryOptions // all of them that this uses
    this.recovery = new AccountRecovery(options)
  }

  start(): void {
    const outcomes = {
      noteHost: () => undefined,
      markMissing: (account: Account) => {
        account.isIncomplete = true
      },
    }
    this.recovery.start({ newest: 0, outcomes } as unknown as RecoveryPipeline) // all of it that this uses
  }

  /** Accounts of the source whose documents name a host. */
  add(count: number, host?: string): Account[] {
    return Array.from({ length: count }, () => {
      const did = `did:plc:${String(this.accounts.size).padStart(24, 'a')}` as Did // of the right form
      const account = this.accounts.take(did)
      this.accounts.assign(account, this.source.id, 'active')
      if (host !== undefined) this.hostOf.set(did, host)
      return account
    })
  }

  /** Accounts of the source miss events. @returns how many wait for their host now. */
  miss(accounts: readonly Account[]): number {
    return accounts.filter((account) => this.recovery.missing(account, { cause: this.source.host })).length
  }

  /** The source has lost events. */
  lose(): void {
    this.source.reading.open()
    this.source.lostAtMs = this.clock.nowMs()
  }
}

test('of ten thousand accounts that miss events few documents are read at a time, and none when no more may wait', async () => {
  const ward = new Ward()
  for (const account of ward.add(10_000)) account.isIncomplete = true
  using recovery = ward.recovery
  ward.start()
  assert.ok(ward.peeks > 0 && ward.peeks <= 200, `${ward.peeks} documents`)
  await ward.clock.pass(60_000)
  assert.equal(recovery.waiting, 2000)
  ward.peeks = 0
  await ward.clock.pass(60_000)
  assert.equal(ward.peeks, 0)
})

test('accounts of a source that has lost events are asked for, however many of its accounts wait for something else', async () => {
  const ward = new Ward()
  using recovery = ward.recovery
  assert.equal(ward.miss(ward.add(1000)), 1000)
  const others = ward.add(200)
  ward.start()
  ward.lose()
  // The walk passes those that wait, too.
  await ward.clock.pass(1_500_000)
  assert.equal(recovery.waiting, 1100)
  assert.equal(others.filter(({ isIncomplete }) => isIncomplete).length, 0)
})

test('users of a PDS whose documents name a host that is not read stop neither healing nor the walk after a loss', async () => {
  const ward = new Ward()
  using recovery = ward.recovery
  const away = ward.add(300, 'nowhere.example.com')
  assert.equal(ward.miss(away), 100)
  const own = ward.add(10, ward.source.host)
  ward.start()
  ward.lose()
  await ward.clock.pass(600_000)
  assert.equal(recovery.waiting, 110)
  assert.equal(ward.miss(own), 10)
  assert.equal(away.filter(({ isIncomplete }) => isIncomplete).length, 200)
})

test('accounts of one host behind a relay do not keep those of others waiting', async () => {
  const ward = new Ward('relay')
  using recovery = ward.recovery
  assert.equal(ward.miss(ward.add(600, 'evil.example.com')), 500)
  assert.equal(ward.miss(ward.add(1, 'good.example.com')), 1)
  ward.add(10, 'good.example.com')
  ward.start()
  ward.lose()
  await ward.clock.pass(900_000)
  assert.equal(recovery.waiting, 511)
})

test('inactive accounts of one host behind a relay that hangs do not keep those of others from being asked for', async () => {
  const ward = new Ward('relay')
  using _ = ward.recovery
  ward.locate = async (did) => ({ did, pdsHost: ward.hostOf.get(did) })
  for (const host of ['evil.example.com', 'good.example.com'])
    for (const account of ward.add(20, host)) ward.accounts.assign(account, ward.source.id, 'deactivated')
  ward.start()
  await ward.clock.pass(10_000)
  assert.deepEqual(ward.asked.toSorted(), ['evil.example.com', 'good.example.com'])
})

/** A new account, a PDS and two relays, as an `AccountRecovery` sees them. */
function newcomer(t: TestContext) {
  const clock = new TestClock()
  const accounts = new AccountTable()
  const all = ['pds.example.com', 'relay1.example.com', 'relay2.example.com'].map((host, index) => {
    const source = sampleSource(() => clock.nowMs())
    const kind = index === 0 ? 'pds' : 'relay'
    return Object.assign(source, { id: index + 1, host, policy: { ...source.policy, kind } as const })
  })
  const [pds, relay1, relay2] = all as [Source, Source, Source] // as many as hosts
  const did = `did:plc:${'a'.repeat(24)}` as Did // of the right form
  const account = accounts.take(did)
  const stored: Source[] = []
  const marked: Account[] = []
  const known = { pdsHost: undefined as string | undefined }
  const byHost = (host: string): Source | undefined => all.find((each) => each.host === host)
  const options = {
    accounts,
    clock,
    sources: {
      byId: (id: number) => all.find((each) => each.id === id),
      byHost,
      isBanned: (host: string) => byHost(host)?.isBanned === true,
      sources: all,
    },
    resolver: {
      peek: () => (known.pdsHost === undefined ? undefined : { did, pdsHost: known.pdsHost }),
      resolve: () => Promise.resolve({ did, pdsHost: known.pdsHost }),
    },
    trail: { newestSeq: 0, push: () => {}, storeSource: (source: Source) => void stored.push(source) },
    inquiry: { locate: () => new Promise(() => {}) },
    onDefect: (_: Did, error: unknown) => assert.fail(String(error)),
  } as unknown as AccountRecoveryOptions // all of them that this uses
  const recovery = new AccountRecovery(options)
  t.after(() => recovery[Symbol.dispose]())
  const outcomes = { noteHost: () => {}, forget: () => {}, markMissing: (each: Account) => marked.push(each) }
  recovery.start({ newest: 0, outcomes } as unknown as RecoveryPipeline) // all of it that this uses
  const ban = (source: Source): void => {
    source.policy = { ...source.policy, desired: 'banned' }
  }
  return { accounts, account, ban, clock, known, marked, pds, recovery, relay1, relay2, stored }
}

test('an account that a relay spoke for, and whose document names a PDS that is read, is marked', async (t) => {
  const { accounts, account, clock, known, marked, pds, recovery, relay1 } = newcomer(t)
  accounts.assign(account, relay1.id, 'active')
  known.pdsHost = pds.host
  recovery.lookAgainAt(account, relay1, false)
  await clock.pass(5000)
  assert.deepEqual(marked, [account])
})

test('a new account of a banned host is looked at again when that host is wanted, though a relay named it last', (t) => {
  const { account, ban, known, pds, recovery, relay1, stored } = newcomer(t)
  account.namedBy = relay1.id
  known.pdsHost = pds.host
  ban(pds)
  assert.equal(recovery.missing(account, { cause: relay1.host }), false)
  assert.deepEqual(stored, [pds])
})

test('a banned relay that named a new account does not take the place of the PDS that brings it', async (t) => {
  const { account, ban, clock, pds, recovery, relay1, relay2 } = newcomer(t)
  const notBeforeMs = clock.nowMs() + 10_000
  const missing = ({ host }: Source): boolean => recovery.missing(account, { cause: host, notBeforeMs })
  missing(pds)
  for (const relay of [relay1, relay2]) {
    account.namedBy = relay.id
    if (relay === relay1) ban(relay1)
    missing(relay)
  }
  ban(relay2)
  await clock.pass(60_000)
  assert.equal(recovery.waiting, 1)
})
