import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { FetchError } from '@tributary/identity'
import { createLogger } from '@tributary/telemetry'
import { relaySettings } from '../settings.ts'
import { readSettings } from '@tributary/settings'
import { limitsOf } from '../policy/relay-limits.ts'
import { PolicyStore } from '../policy/policy-store.ts'
import { newSourcePolicy } from '../policy/source-policy.ts'
import type { Did } from '@tributary/protocol'
import { freshnessOf } from './freshness.ts'
import type { ConnectionOptions } from './source-connection.ts'
import { SourceSet } from './source-set.ts'
import type { StoredSource } from './source.ts'

const did = 'did:plc:a' as Did // only a name here
const stored: Omit<StoredSource, 'cursor'> = {
  id: 1,
  host: 'pds.test.dev',
  url: 'wss://pds.test.dev',
  epoch: 2,
  epochAtMs: 0,
  ahead: [60],
  newestLogged: [[did, 70]],
  looks: [[did, true]],
  lostAtMs: 0,
  revision: 0,
  walkFrom: '',
  caughtUpAtMs: 0,
}
const limits = limitsOf(readSettings(relaySettings, { env: {} }))

test('a position that an operator chose holds at the next start, though the state was not written any more', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sources-'))
  try {
    const policy = new PolicyStore(join(directory, 'policy.sqlite'), limits)
    const positionAt = (cursor: number, epoch = stored.epoch) => {
      const source = new SourceSet(policy, [{ ...stored, cursor, epoch }]).byId(1)
      return [source?.epoch, source?.cursor, source?.fateOf(did, 60), source?.fateOf(did, 69)]
    }
    assert.deepEqual(positionAt(50), [2, 50, 'done', 'overtaken'])
    policy.storePosition(1, { epoch: 3, cursor: 7 })
    assert.deepEqual(positionAt(50), [3, 7, undefined, undefined], 'chosen, and not in the state yet')
    assert.deepEqual(positionAt(9, 3), [3, 9, 'done', 'overtaken'], 'the state went on from there')
    assert.deepEqual(positionAt(0, 4), [4, 0, 'done', 'overtaken'], 'the source began anew since')
    const isLossNoted = new SourceSet(policy, [{ ...stored, cursor: 50, epoch: 2 }]).byId(1)?.lostAtMs !== 0
    assert.ok(isLossNoted, 'a chosen position leaves events out')
    policy.storePosition(1, { epoch: 3, cursor: 20 })
    assert.deepEqual(positionAt(9, 3), [3, 9, 'done', 'overtaken'], 'moved on within the epoch')
    const at3 = new SourceSet(policy, [{ ...stored, cursor: 9, epoch: 3 }]).byId(1)
    assert.equal(at3?.movedOnTo, 20, 'as soon as what cannot be read is met again')
    policy.forgetPositions()
    assert.deepEqual(positionAt(50), [2, 50, 'done', 'overtaken'])
    policy.close()
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('an account that a relay forwarded is remembered for that relay, whatever others forward', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sources-'))
  const policy = new PolicyStore(join(directory, 'policy.sqlite'), limits)
  try {
    const sources = new SourceSet(policy, [])
    const rule = { ...newSourcePolicy, kind: 'relay' } as const
    const [one, other] = ['one.test.dev', 'other.test.dev'].map((host) =>
      sources.add(policy.insertSource({ host, url: `wss://${host}` }, rule, { countsForDay: false })),
    )
    one?.forwarded.add(did)
    for (let n = 0; n < 10_000; n++) other?.forwarded.add(`did:plc:${n}` as Did) // only a name here
    assert.deepEqual(sources.forwardersOf(did), [one])
    other?.forwarded.add(did)
    assert.deepEqual(sources.forwardersOf(did), [one, other])
    assert.deepEqual(sources.forwardersOf('did:plc:0' as Did), [], 'the oldest are forgotten')
  } finally {
    policy.close()
    rmSync(directory, { recursive: true })
  }
})

test('a ban of a host holds for all its ports, and a ban of a domain for all hosts below it', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sources-'))
  const policy = new PolicyStore(join(directory, 'policy.sqlite'), limits)
  try {
    const sources = new SourceSet(policy, [])
    const banned = { ...newSourcePolicy, desired: 'banned' } as const
    for (const [host, rule] of [
      ['pds.evil.dev', banned],
      ['localhost:1', banned],
      ['pds.fine.dev', newSourcePolicy],
    ] as const)
      sources.add(policy.insertSource({ host, url: `wss://${host}` }, rule, { countsForDay: false }))
    policy.putDomainBan('bad.dev', '')
    policy.reload()
    for (const host of ['pds.evil.dev', 'pds.evil.dev:8443', 'localhost:1', 'bad.dev', 'a.b.bad.dev:8443'])
      assert.ok(sources.isBanned(host), host)
    for (const host of ['evil.dev', 'a.pds.evil.dev', 'localhost:2', 'pds.fine.dev', 'notbad.dev', ''])
      assert.ok(!sources.isBanned(host), host)
  } finally {
    policy.close()
    rmSync(directory, { recursive: true })
  }
})

test('a source of which nothing is stored is after a start what it was when it was added', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sources-'))
  try {
    const path = join(directory, 'policy.sqlite')
    const before = new PolicyStore(path, limits)
    const { host, url } = stored
    const source = new SourceSet(before, []).add(
      before.insertSource({ host, url }, newSourcePolicy, { countsForDay: false }),
    )
    before.close()
    const after = new PolicyStore(path, limits)
    const started = new SourceSet(after, []).byHost(host)
    assert.deepEqual(started?.stored(0), source.stored(0))
    assert.deepEqual([started?.cursor, started?.addedAtMs], [0, source.addedAtMs])
    after.close()
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('what was left out of an account is forgotten at every source when it is made up for', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sources-'))
  try {
    const policy = new PolicyStore(join(directory, 'policy.sqlite'), limits)
    const one = { ...stored, cursor: 1 }
    const other = { ...one, id: 2, host: 'other.test.dev', url: 'wss://other.test.dev' }
    const set = new SourceSet(policy, [one, other])
    for (const source of set.sources) source.unheard.add(did)
    assert.deepEqual([set.takeUnheard(did), set.takeUnheard(did)], [true, false])
    policy.close()
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('of sources that were never read none is said to have been caught up with', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sources-'))
  try {
    const policy = new PolicyStore(join(directory, 'policy.sqlite'), limits)
    const fresh = { ...stored, cursor: 0, ahead: [] }
    const reasonsOf = (caughtUpAtMs: number): string[] =>
      freshnessOf(new SourceSet(policy, [{ ...fresh, caughtUpAtMs }])).reasons
    assert.deepEqual(reasonsOf(0), ['None of 1 sources is connected: none has been read yet.'])
    assert.match(reasonsOf(Date.now()).join(), /^None of 1 sources is connected: the last one was caught up/)
    policy.close()
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('after a start a source is behind since it was caught up with, and a new one since it was added', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sources-'))
  try {
    const policy = new PolicyStore(join(directory, 'policy.sqlite'), limits)
    const caughtUpAtMs = Date.now() + 60_000
    const nowMs = caughtUpAtMs + 600_000
    const set = new SourceSet(policy, [{ ...stored, cursor: 50, caughtUpAtMs }], () => nowMs)
    assert.equal(set.byId(1)?.reading.lagMs, 600_000)
    assert.deepEqual([freshnessOf(set).status, freshnessOf(set).lagSeconds], ['stale', 600])
    const late = { id: 2, host: 'other.test.dev', url: 'wss://other.test.dev', addedAtMs: nowMs - 1000 }
    assert.equal(set.add({ ...late, policy: newSourcePolicy, revision: 1 }).reading.lagMs, 1000)
    policy.close()
  } finally {
    rmSync(directory, { recursive: true })
  }
})

/** Connections that reach nothing. `dialled` counts their attempts. */
function noConnections(): ConnectionOptions & { dialled: number } {
  const nothing = (): void => undefined
  const options = {
    dialled: 0,
    pipeline: { receive: () => 0 },
    logger: createLogger('test', { level: 'silent' }),
    connectOptions: () => {
      options.dialled++
      throw new FetchError('nothing is dialled here')
    },
    userAgent: '',
    onRefused: nothing,
    onDefect: nothing,
    onEpoch: nothing,
    onDisconnected: nothing,
  }
  return options
}

test('a source that is enabled again is not read while too much of it waits', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sources-'))
  const policy = new PolicyStore(join(directory, 'policy.sqlite'), limits)
  let nowMs = 1_000_000
  const set = new SourceSet(policy, [{ ...stored, cursor: 1 }], () => nowMs)
  try {
    set.connect(noConnections())
    const [source] = set.sources
    assert.ok(source)
    const pauseReason = (): string | undefined => {
      nowMs += 60_000
      return source.reading.pauseReason
    }
    set.setSourcePaused(source, 'held-up', true)
    assert.equal(pauseReason(), 'held-up')
    set.setPolicy(source, { ...newSourcePolicy, desired: 'paused' }, 2)
    set.setSourcePaused(source, 'identities', true)
    set.setPolicy(source, newSourcePolicy, 3)
    assert.equal(pauseReason(), 'held-up')
    set.setSourcePaused(source, 'held-up', false)
    assert.equal(pauseReason(), 'identities')
    set.setSourcePaused(source, 'identities', false)
    assert.equal(pauseReason(), undefined)
  } finally {
    await set.close()
    policy.close()
    rmSync(directory, { recursive: true })
  }
})

test('a source that is added or enabled while the relay stops is not dialled any more', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sources-'))
  const policy = new PolicyStore(join(directory, 'policy.sqlite'), limits)
  try {
    const set = new SourceSet(policy, [{ ...stored, cursor: 1 }])
    const [source] = set.sources
    assert.ok(source)
    set.setPolicy(source, { ...newSourcePolicy, desired: 'paused' }, 2)
    const connections = noConnections()
    set.connect(connections)
    await set.close()
    set.setPolicy(source, newSourcePolicy, 3)
    const late = { id: 2, host: 'late.test.dev', url: 'wss://late.test.dev', addedAtMs: 0 }
    set.reconcile(set.add({ ...late, policy: newSourcePolicy, revision: 1 }))
    await new Promise(setImmediate)
    assert.equal(connections.dialled, 0)
    await set.close()
  } finally {
    policy.close()
    rmSync(directory, { recursive: true })
  }
})
