import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSettings } from '@tributary/settings'
import { createLogger } from '@tributary/telemetry'
import { limitsOf } from '../policy/relay-limits.ts'
import { NoticeLog } from '../policy/notice-log.ts'
import { NoticeRows } from '../policy/notice-rows.ts'
import { PolicyStore } from '../policy/policy-store.ts'
import { newSourcePolicy } from '../policy/source-policy.ts'
import { relaySettings } from '../settings.ts'
import { NoticeWatch } from './notice-watch.ts'
import { SourceSet } from './source-set.ts'

const host = 'pds.test.dev'

/** A relay's only source, watched. `pass` lets time pass, with a look every five seconds; `noted` is what is new. */
function begin() {
  const clock = { nowMs: 1_700_000_000_000 }
  const policy = new PolicyStore(':memory:', limitsOf(readSettings(relaySettings, { env: {} })))
  const place = { host, url: `wss://${host}` }
  policy.insertSource(
    place,
    { ...newSourcePolicy, accountQuota: 2 },
    { countsForDay: false, nowMs: clock.nowMs },
  )
  const sources = new SourceSet(policy, [], () => clock.nowMs)
  const [source] = sources.sources
  assert.ok(source)
  const counts = { active: 0, throttled: 0 }
  const accounts = { activeOf: () => counts.active, throttledCountOf: () => counts.throttled }
  const stored = new NoticeRows(':memory:')
  const notices = new NoticeLog(stored, {
    logger: createLogger('relay', { level: 'silent' }),
    fail: assert.ifError,
    nowMs: () => clock.nowMs,
  })
  const watch = new NoticeWatch({ sources, accounts, notices })
  let seen = 0
  return {
    sources,
    source,
    counts,
    pass: (seconds: number) => {
      for (let passed = 0; passed < seconds; passed += 5, clock.nowMs += 5000) watch.look()
    },
    noted: () => {
      const rows = stored.list({ limit: 1000 }).filter(({ id }) => id > seen)
      seen = rows[0]?.id ?? seen
      return rows.toReversed().map(({ kind }) => kind)
    },
    [Symbol.dispose]() {
      watch.close()
      stored.close()
      policy.close()
    },
  }
}

test('an outage is noted when it has lasted two minutes, once, and its end', () => {
  using relay = begin()
  const { source, pass, noted } = relay
  source.reading.open()
  pass(60)
  source.reading.close()
  pass(115)
  assert.deepEqual(noted(), [])
  pass(3600)
  assert.deepEqual(noted(), ['source-unreachable'])
  source.reading.open()
  pass(60)
  assert.deepEqual(noted(), ['source-resumed'])
})

test('pauses that last are noted, whoever makes them, and short ones are not', () => {
  using relay = begin()
  const { source, sources, pass, noted } = relay
  source.reading.open()
  source.reading.setPause('rate')
  pass(30)
  source.reading.setPause(undefined)
  pass(60)
  assert.deepEqual(noted(), [])
  source.reading.setPause('rate')
  pass(300)
  source.reading.setPause(undefined)
  pass(300)
  assert.deepEqual(noted(), ['source-throttled', 'source-resumed'])
  sources.setPaused('disk-floor', true)
  pass(5)
  sources.setPaused('disk-floor', false)
  pass(5)
  assert.deepEqual(noted(), ['reading-paused', 'reading-resumed'])
  source.policy = { ...source.policy, desired: 'paused' }
  pass(5)
  source.policy = { ...source.policy, desired: 'enabled' }
  pass(5)
  assert.deepEqual(noted(), ['source-disabled', 'source-resumed'])
})

test('a quota that is reached is noted once for as long as accounts wait, and lost events always', () => {
  using relay = begin()
  const { source, counts, pass, noted } = relay
  source.reading.open()
  counts.active = 2
  pass(60)
  assert.deepEqual(noted(), [], 'nobody waits')
  counts.throttled = 1
  for (const active of [2, 1, 2]) {
    counts.active = active
    pass(60)
  }
  assert.deepEqual(noted(), ['quota-reached'])
  counts.throttled = 0
  pass(5)
  counts.throttled = 1
  source.losses++
  pass(5)
  assert.deepEqual(noted(), ['quota-reached', 'events-lost'])
})
