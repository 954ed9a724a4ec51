import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { Operations } from '@tributary/operations'
import { readSettings } from '@tributary/settings'
import type { XrpcError } from '@tributary/xrpc'
import { PolicyStore } from '../policy/policy-store.ts'
import { limitsOf } from '../policy/relay-limits.ts'
import { newSourcePolicy, type SourcePolicyChange } from '../policy/source-policy.ts'
import { relaySettings } from '../settings.ts'
import { SourceAdmin, type SourceAdminOptions } from './source-admin.ts'
import { SourceSet } from './source-set.ts'

/** Hosts that are asked at a time because of crawl requests. */
const underWayMax = 32
/** Requests of one address that wait for that. */
const waitingMax = 30

for (const isKnown of [false, true])
  test(`crawl requests have few ${isKnown ? 'sources' : 'new hosts'} asked at a time, for addresses in turn`, async (t) => {
    const policy = new PolicyStore(':memory:', {
      ...limitsOf(readSettings(relaySettings, { env: {} })),
      admission: 'open',
    })
    t.after(() => policy.close())
    const sources = new SourceSet(policy, [])
    /** Answers to the requests that are under way. */
    const answers: (() => void)[] = []
    let most = 0
    const pds = createServer((_, response) => {
      answers.push(() => void response.writeHead(404).end())
      most = Math.max(most, answers.length)
    })
    pds.listen(0)
    await once(pds, 'listening')
    t.after(() => pds.close())
    const { port } = pds.address() as AddressInfo // it listens on a port
    const admin = new SourceAdmin({
      policy,
      operations: new Operations(policy.db),
      sources,
      allowedPrivateHosts: [`localhost:${port}`],
      userAgent: 'test',
    } as unknown as SourceAdminOptions) // all that a crawl request takes
    const crawl = async (address: string, n: number): Promise<void> => {
      const host = { host: `pds${n}.test.dev`, url: `http://localhost:${port}` }
      if (isKnown) sources.add(policy.insertSource(host, newSourcePolicy, { countsForDay: false }))
      await admin.crawl(host, address)
    }
    const codes: string[] = []
    const codesOfOther: string[] = []
    const note = async (call: Promise<void>, into: string[]): Promise<void> =>
      await call.catch((error: unknown) => void into.push((error as XrpcError).error)) // as crawl throws it
    const all = Array.from({ length: 100 }, (_, n) => note(crawl('203.0.113.1', n), codes))
    all.push(note(crawl('203.0.113.2', 100), codesOfOther))
    while (answers.length < underWayMax) await once(pds, 'request')
    let answered = 0
    while (codesOfOther.length === 0) {
      const answer = answers.shift()
      answer?.()
      if (answer) answered++
      await new Promise(setImmediate)
    }
    assert.ok(
      answered < underWayMax + waitingMax,
      `${answered} were answered before another address had its turn`,
    )
    while (codes.length < 100) {
      answers.shift()?.()
      await new Promise(setImmediate)
    }
    await Promise.all(all)
    const refused = codes.filter((code) => code === 'RateLimitExceeded').length
    const unreachable = codes.filter((code) => code === 'HostUnreachable').length
    assert.deepEqual([refused, unreachable], [100 - underWayMax - waitingMax, underWayMax + waitingMax])
    assert.equal(most, underWayMax)
  })

const decisions: Record<string, (policy: PolicyStore, sources: SourceSet) => string> = {
  'admits no new hosts any more': (policy) => {
    policy.storeLimits({ ...policy.limits, admission: 'approved' })
    return 'HostNotApproved'
  },
  'takes no crawl requests any more': (policy) => {
    policy.storeLimits({ ...policy.limits, crawlRequests: 'off' })
    return 'CrawlDisabled'
  },
  'bans the domain': (policy) => {
    policy.putDomainBan('test.dev', '')
    return 'HostBanned'
  },
  'adds and removes the host': (policy, sources) => {
    const removed = { ...newSourcePolicy, desired: 'removed' } as const
    sources.add(policy.insertSource({ host: 'pds.test.dev', url: '' }, removed, { countsForDay: false }))
    return 'HostNotApproved'
  },
}

for (const [what, decide] of Object.entries(decisions))
  test(`a host that was asked because of a crawl request is no source when the operator ${what} meanwhile`, async (t) => {
    const policy = new PolicyStore(':memory:', {
      ...limitsOf(readSettings(relaySettings, { env: {} })),
      admission: 'open',
    })
    t.after(() => policy.close())
    const sources = new SourceSet(policy, [])
    let code = ''
    const pds = createServer((_, response) => {
      code = decide(policy, sources)
      policy.reload()
      response.end(JSON.stringify({ did: 'did:web:pds.test.dev' }))
    })
    pds.listen(0)
    await once(pds, 'listening')
    t.after(() => pds.close())
    const { port } = pds.address() as AddressInfo // it listens on a port
    const admin = new SourceAdmin({
      policy,
      operations: new Operations(policy.db),
      sources,
      slots: { fill: () => {} },
      allowedPrivateHosts: [`localhost:${port}`],
      userAgent: 'test',
    } as unknown as SourceAdminOptions) // all that a crawl request takes
    const host = { host: 'pds.test.dev', url: `http://localhost:${port}` }
    const outcome = await admin
      .crawl(host, '203.0.113.1')
      .catch((error: unknown) => (error as XrpcError).error) // as crawl throws it
    assert.deepEqual([outcome, sources.byHost(host.host)?.isWanted ?? false], [code, false])
  })

for (const [desired, becomes] of [
  ['paused', 'paused'],
  ['removed', 'enabled'],
] as const)
  test(`a ${desired} source that is added again takes the options that are given, and keeps the others`, async (t) => {
    const policy = new PolicyStore(':memory:', limitsOf(readSettings(relaySettings, { env: {} })))
    t.after(() => policy.close())
    const sources = new SourceSet(policy, [])
    const operations = new Operations(policy.db)
    const host = { host: 'pds.test.dev', url: 'https://pds.test.dev' }
    const before = { ...newSourcePolicy, desired, accountQuota: 5, note: 'a friend' }
    const source = sources.add(policy.insertSource(host, before, { countsForDay: false }))
    const slots = { fill: () => {} }
    const parts = { policy, operations, sources, slots, allowedPrivateHosts: [], userAgent: 'test' }
    const admin = new SourceAdmin(parts as unknown as SourceAdminOptions) // all that adding takes
    const add = async (change: SourcePolicyChange) => {
      const request = { operation: 'addHost', actor: 'ann', idempotencyKey: undefined, input: change }
      return await admin.add(host, request, { change })
    }
    assert.deepEqual(await add({ kind: 'relay', accountQuota: null, eventsPerSecond: 7 }), {
      hostname: host.host,
      added: false,
    })
    const after = {
      ...newSourcePolicy,
      desired: becomes,
      kind: 'relay',
      note: 'a friend',
      eventsPerSecond: 7,
    }
    assert.deepEqual([source.policy, source.revision], [after, 2])
    assert.deepEqual(new SourceSet(policy, []).byHost(host.host)?.policy, JSON.parse(JSON.stringify(after)))
    await add({})
    assert.deepEqual([source.policy, source.revision], [after, 2], 'nothing was given')
  })

test('a change of a source that changes nothing keeps its revision and is not audited, also after a start', async (t) => {
  const policy = new PolicyStore(':memory:', limitsOf(readSettings(relaySettings, { env: {} })))
  t.after(() => policy.close())
  const operations = new Operations(policy.db)
  const host = { host: 'pds.test.dev', url: 'wss://pds.test.dev' }
  policy.insertSource(host, { ...newSourcePolicy, eventsPerSecond: 7 }, { countsForDay: false })
  const sources = new SourceSet(policy, [])
  const source = sources.byHost(host.host) ?? assert.fail('it is a source')
  const parts = {
    policy,
    operations,
    sources,
    slots: { fill: () => {} },
    allowedPrivateHosts: [],
    userAgent: 'test',
  }
  const admin = new SourceAdmin(parts as unknown as SourceAdminOptions) // all that updating takes
  const update = async (change: SourcePolicyChange) =>
    await admin.update(source, change, {
      operation: 'updateHost',
      actor: 'ann',
      idempotencyKey: undefined,
      input: change,
    })
  assert.deepEqual(await update({ accountQuota: null, eventsPerSecond: 7 }), {
    hostname: host.host,
    revision: 1,
  })
  assert.deepEqual(operations.audit(10), [])
  assert.equal((await update({ accountQuota: 5, eventsPerSecond: 7 })).revision, 2)
  assert.equal(operations.audit(10).length, 1)
})
