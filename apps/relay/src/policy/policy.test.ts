import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import type { Did } from '@tributary/protocol'
import { accountQuotaOf, eventRatesOf, isTrustedHost } from './limits.ts'
import { prepare } from '../state/schema.ts'
import { preparePolicy } from './policy-schema.ts'
import { PolicyStore } from './policy-store.ts'
import type { RelayLimits } from './relay-limits.ts'
import { applyChange, newSourcePolicy } from './source-policy.ts'

const limits: RelayLimits = {
  admission: 'approved',
  crawlRequests: 'on',
  accountQuota: 100,
  newSourcesPerDay: 3,
  sourceEventsPerSecond: 500,
  sourceEventsPerHour: 2500,
  sourceEventsPerDay: 20_000,
  eventsPerSecond: 1000,
  trustedHosts: [],
  diskFreeMbMin: 0,
}
const dayMs = 86_400_000
const host = (n: number) => ({ host: `pds${n}.test.dev`, url: `wss://pds${n}.test.dev` })

function inDirectory(run: (open: () => PolicyStore) => void | Promise<void>) {
  return async () => {
    const directory = mkdtempSync(join(tmpdir(), 'policy-'))
    try {
      await run(() => new PolicyStore(join(directory, 'policy.sqlite'), limits))
    } finally {
      rmSync(directory, { recursive: true })
    }
  }
}

test(
  'new sources are counted over 24 hours, also after a restart, those admitted beyond the limit are not',
  inDirectory((open) => {
    const store = open()
    const start = Date.now()
    for (let n = 0; n < 3; n++)
      store.insertSource(host(n), newSourcePolicy, { countsForDay: true, nowMs: start + n })
    store.insertSource(host(9), newSourcePolicy, { countsForDay: false, nowMs: start + 5 })
    store.close()
    const again = open()
    assert.deepEqual(again.newSourcesLeft(start + 10), { left: 0, retryAfterMs: dayMs - 10 })
    assert.equal(again.newSourcesLeft(start + dayMs).left, 1)
    again.storeLimits({ ...limits, newSourcesPerDay: 5 })
    again.reload()
    assert.equal(again.newSourcesLeft(start + 10).left, 2)
    again.close()
  }),
)

test(
  'sources that were added at a date far ahead take no places of the day when the date is right again',
  inDirectory((open) => {
    const store = open()
    const nowMs = 1_700_000_000_000
    store.storeLimits({ ...limits, newSourcesPerDay: 2 })
    store.reload()
    for (const [n, atMs] of [nowMs + 30 * dayMs, nowMs + 31 * dayMs, nowMs + 1000].entries())
      store.insertSource(host(n), newSourcePolicy, { countsForDay: true, nowMs: atMs })
    // One that was set back by a second lets nothing extra pass.
    assert.equal(store.newSourcesLeft(nowMs).left, 1)
    store.close()
  }),
)

test(
  'the seed of the limits is for an empty directory, what was decided later stays',
  inDirectory((open) => {
    const store = open()
    store.storeLimits({ ...limits, accountQuota: 7 })
    store.close()
    const again = open()
    assert.equal(again.limits.accountQuota, 7)
    again.close()
  }),
)

test('what an operator decides is on disk when that is said, whatever happens to the machine', () => {
  const db = new Database(':memory:')
  preparePolicy(db)
  assert.equal(db.pragma('synchronous', { simple: true }), 2, 'FULL')
  db.close()
})

test('databases that a newer relay has written are left as they are', () => {
  for (const prepareNow of [preparePolicy, prepare]) {
    const db = new Database(':memory:')
    prepareNow(db)
    db.pragma('user_version = 999')
    assert.throws(() => prepareNow(db), /sqlite has version 999, and this relay knows \d+: a newer relay/)
    assert.equal(db.pragma('user_version', { simple: true }), 999)
    db.close()
  }
})

test(
  'a banned domain covers itself and what is below it, and nothing that merely ends alike',
  inDirectory((open) => {
    const store = open()
    store.putDomainBan('bad.dev', 'spam')
    store.reload()
    assert.equal(store.bannedDomainOf('bad.dev'), 'bad.dev')
    assert.equal(store.bannedDomainOf('a.b.bad.dev:8080'), 'bad.dev')
    assert.equal(store.bannedDomainOf('notbad.dev'), undefined)
    assert.equal(store.deleteDomainBan('bad.dev'), true)
    store.reload()
    assert.equal(store.bannedDomainOf('bad.dev'), undefined)
    store.close()
  }),
)

test('trusted patterns are exact hosts or whole suffixes, and widen the limits', () => {
  const patterns = ['one.dev', '*.Host.dev']
  const trusted = ['one.dev', 'a.host.dev', 'host.dev', 'xhost.dev', 'a.one.dev']
  assert.deepEqual(
    trusted.filter((name) => isTrustedHost(name, patterns)),
    ['one.dev', 'a.host.dev'],
  )
  const policy = { ...newSourcePolicy, isTrusted: true }
  assert.ok(accountQuotaOf(policy, limits) > 1_000_000)
  assert.deepEqual(eventRatesOf(policy, limits), {
    perSecond: 5000,
    perHour: 50_000_000,
    perDay: 500_000_000,
  })
  assert.equal(accountQuotaOf({ ...newSourcePolicy, kind: 'relay' }, limits), Infinity)
  assert.equal(accountQuotaOf({ ...policy, accountQuota: 0 }, limits), 0)
})

test('the rates of a source follow its account quota, and can be set or switched off for one or for all', () => {
  const rates = { perSecond: 500, perHour: 2600, perDay: 21_000 }
  assert.deepEqual(eventRatesOf(newSourcePolicy, limits), rates)
  const wider = eventRatesOf({ ...newSourcePolicy, accountQuota: 1000 }, limits)
  assert.deepEqual(wider, { perSecond: 500, perHour: 3500, perDay: 30_000 })
  const own = eventRatesOf({ ...newSourcePolicy, eventsPerHour: 7, eventsPerDay: 0 }, limits)
  assert.deepEqual(own, { perSecond: 500, perHour: 7, perDay: Infinity })
  const off = { ...limits, sourceEventsPerHour: 0, sourceEventsPerDay: 0 }
  for (const isTrusted of [false, true]) {
    const { perHour, perDay } = eventRatesOf({ ...newSourcePolicy, isTrusted }, off)
    assert.deepEqual([perHour, perDay], [Infinity, Infinity])
  }
  assert.equal(eventRatesOf({ ...newSourcePolicy, kind: 'relay' }, limits).perHour, Infinity)
})

test('a change sets what it names, takes own values back, and cannot touch anything else', () => {
  const before = { ...newSourcePolicy, validation: 'lenient', accountQuota: 5, eventsPerHour: 0 } as const
  assert.deepEqual(applyChange(before, {}), before)
  const change = { validation: 'default', accountQuota: null, eventsPerDay: 0, note: 'default' } as const
  const after = {
    ...before,
    validation: undefined,
    accountQuota: undefined,
    eventsPerDay: 0,
    note: 'default',
  }
  assert.deepEqual(applyChange(before, change), after)
  const unlisted = { note: '', desired: 'banned', hostname: 'pds.test.dev' }
  assert.deepEqual(applyChange(before, unlisted), before)
})

test(
  'the end of a takedown that is decided again while the one before is being done is not forgotten with it',
  inDirectory((open) => {
    const did = 'did:plc:abcdefghijklmnopqrstuvwx' as Did // a DID as it stands
    const policy = open()
    const first = policy.liftTakedown(did)
    policy.setTakedown(did, { status: 'suspended', reason: '' })
    const second = policy.liftTakedown(did)
    policy.forgetLifted(did, first)
    policy.close()
    const reopened = open()
    assert.deepEqual(reopened.liftedTakedowns(), [{ did, note: second }])
    reopened.forgetLifted(did, second)
    assert.deepEqual(reopened.liftedTakedowns(), [])
    reopened.close()
  }),
)
