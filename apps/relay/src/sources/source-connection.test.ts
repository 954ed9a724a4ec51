import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FetchError } from '@tributary/identity'
import { limits } from '@tributary/protocol'
import { TokenBucket } from '@tributary/rates'
import { Turns } from '@tributary/rates'
import { createLogger } from '@tributary/telemetry'
import {
  encodeError,
  encodeEvent,
  eventually,
  startScriptedHost,
  type ScriptedHost,
} from '@tributary/testkit'
import type { ClientOptions } from 'ws'
import { sampleSource } from '../../tests/sample-source.ts'
import { newSourcePolicy } from '../policy/source-policy.ts'
import { DialPace } from './dial-pace.ts'
import type { Allowance } from './read-gate.ts'
import { SourceConnection, type ConnectionOptions } from './source-connection.ts'

/** A connection to a host, with the messages that came of it. Every one of them moves the source's position. */
function connect(
  host: ScriptedHost,
  options: Partial<ConnectionOptions> = {},
  nowMs = Date.now,
  allowances: readonly Allowance[] = [],
) {
  const source = sampleSource(nowMs, { host: host.host, url: host.url.replace('http', 'ws') })
  const connection = new SourceConnection(
    source,
    {
      pipeline: { receive: () => (source.cursor = host.lastSeq) },
      logger: createLogger('relay', { level: 'silent' }),
      connectOptions: () => ({}),
      userAgent: 'test',
      onRefused: () => undefined,
      onDefect: (_, error) => assert.fail(String(error)),
      onEpoch: () => undefined,
      onDisconnected: () => undefined,
      ...options,
    },
    { allowances, turns: new Turns(), pace: new DialPace() },
  )
  return { source, connection }
}

const startHost = () => startScriptedHost({ plcUrl: 'http://127.0.0.1:1' })

test('an address that must not be dialled makes the source stuck with that reason, until it may be', async () => {
  await using host = await startHost()
  let isAllowed = false
  const { source, connection } = connect(host, {
    connectOptions: () => {
      if (!isAllowed) throw new FetchError('TLS is required')
      return {}
    },
  })
  await eventually(() => source.state === 'stuck')
  assert.deepEqual([source.condition.reason, source.lastError], ['address not allowed', 'TLS is required'])
  isAllowed = true
  await eventually(() => source.state === 'connected')
  assert.equal(source.condition.reason, undefined)
  await connection.close()
})

test('a source that stays away is logged once for each reason, however often it is dialled', async () => {
  await using host = await startHost()
  const lines: string[] = []
  let [reason, attempts] = ['TLS is required', 0]
  const { connection } = connect(host, {
    logger: createLogger('relay', { destination: { write: (line: string) => void lines.push(line) } }),
    connectOptions: () => {
      attempts++
      throw new FetchError(reason)
    },
  })
  const dialled = async (count: number) => {
    await eventually(() => {
      connection.reconnect()
      return attempts >= count
    })
  }
  await dialled(3)
  reason = 'a private address'
  await dialled(attempts + 3)
  await connection.close()
  const reasons = lines.map((line) => (JSON.parse(line) as { reason: string }).reason) // pino's own
  assert.deepEqual(reasons, ['TLS is required', 'a private address'])
})

for (const [what, jumpsMs, passesMs] of [
  ['a moment is dialled soon though the date jumps eight days ahead', 8 * 86_400_000, 0],
  ['eight days is dialled more seldom, whatever the date', 0, 8 * 86_400_000],
] as const)
  test(`a source that has been away for ${what}`, async () => {
    await using host = await startHost()
    const waits: { awayMs: number; waitMs: number }[] = []
    const write = (line: string) => void waits.push(JSON.parse(line) as (typeof waits)[number]) // pino's own
    let [nowMs, elapsedMs] = [1_000_000, 5000]
    const { connection } = connect(
      host,
      {
        logger: createLogger('relay', { destination: { write } }),
        connectOptions: () => {
          nowMs += jumpsMs
          elapsedMs += passesMs
          throw new FetchError('TLS is required')
        },
        elapsedMs: () => elapsedMs,
      },
      () => nowMs,
    )
    await eventually(() => waits.length > 0)
    const [{ awayMs, waitMs } = assert.fail('it is logged')] = waits
    assert.equal(awayMs, passesMs)
    if (passesMs === 0) assert.ok(waitMs <= 1000)
    await connection.close()
  })

test('a name that leads to a private address makes the source stuck too', async () => {
  await using host = await startHost()
  const { source, connection } = connect(host, {
    connectOptions: () =>
      ({
        lookup: (_: string, __: unknown, done: (error: Error) => void) =>
          done(new FetchError('localhost has a private address')),
      }) as ClientOptions, // ws hands `lookup` on to the socket
  })
  await eventually(() => source.state === 'stuck')
  assert.equal(source.condition.reason, 'address not allowed')
  await connection.close()
})

test('a source whose reading is paused says so on a new connection too, until it is read again', async () => {
  await using host = await startHost()
  const { source, connection } = connect(host)
  await eventually(() => source.state === 'connected')
  connection.setPaused('disk-floor', true)
  assert.deepEqual([source.state, source.condition.reason], ['throttled', 'disk-floor'])
  const again = host.nextConnection()
  connection.disconnect('for the test')
  await again
  await eventually(() => source.state === 'throttled')
  assert.equal(source.condition.reason, 'disk-floor')
  connection.setPaused('disk-floor', false)
  assert.equal(source.state, 'connected')
  await connection.close()
})

test('a source that is stuck stays so when its reading is paused and goes on', async () => {
  await using host = await startHost()
  const { source, connection } = connect(host)
  source.policy = { ...newSourcePolicy, onRenumbered: 'hold' }
  await eventually(() => source.state === 'connected')
  const open = await host.connection()
  const { lastConnectedAtMs } = source
  open.send(encodeError('FutureCursor', 'Cursor in the future.'))
  await eventually(() => source.state === 'stuck')
  await eventually(() => source.lastConnectedAtMs > lastConnectedAtMs)
  connection.setPaused('disk-floor', true)
  connection.setPaused('disk-floor', false)
  assert.deepEqual([source.state, source.condition.reason], ['stuck', 'renumbered, held'])
  await connection.close()
})

test('a source that numbers anew is read from its oldest event though the date was set back since the last time', async () => {
  await using host = await startHost()
  const { source, connection } = connect(host)
  source.epochAtMs = Date.now() + 86_400_000
  await eventually(() => source.state === 'connected')
  const open = await host.connection()
  open.send(encodeError('FutureCursor', 'Cursor in the future.'))
  await eventually(() => source.lastError !== undefined)
  assert.deepEqual([source.epoch, source.stuckReason], [2, undefined])
  await connection.close()
})

test('a source that was moved on before a restart is moved on again when what cannot be read comes', async () => {
  await using host = await startHost()
  const settled = Promise.withResolvers<unknown[]>()
  const { source, connection } = connect(host, {
    onRefused: (_, reason) =>
      queueMicrotask(() => settled.resolve([reason, source.receivedSeq, source.stuckReason])),
  })
  source.movedOnTo = 7
  await eventually(() => source.state === 'connected')
  const open = await host.connection()
  open.send(Buffer.alloc(limits.messageBytes + 1))
  assert.deepEqual(await settled.promise, ['oversize', 7, undefined])
  await connection.close()
})

test('a source without a connection does not say that it has one while it waits for the next', async () => {
  await using host = await startHost()
  const { source, connection } = connect(host)
  await eventually(() => source.state === 'connected')
  host.refuseWithStatus = 503
  const [open] = host.connections
  open?.terminate()
  await eventually(() => source.lastError !== undefined)
  assert.equal(source.state, 'connecting')
  const { lastConnectedAtMs, lastDisconnectedAtMs, lastErrorAtMs } = source
  assert.ok(lastDisconnectedAtMs >= lastConnectedAtMs && lastErrorAtMs >= lastDisconnectedAtMs)
  connection.reconnect()
  await eventually(() => source.lastError === 'answered with status 503')
  assert.equal(source.lastDisconnectedAtMs, lastDisconnectedAtMs, 'that was no connection')
  await connection.close()
})

/** The host may learn of a connection a moment later than we do, so this is asked for until it has worked. */
function endAll(host: ScriptedHost): true {
  for (const open of host.connections) open.terminate()
  return true
}

test('a source is unreachable after two minutes without a connection, however often it was dialled', async () => {
  await using host = await startHost()
  let nowMs = 1_000_000
  const { source, connection } = connect(host, {}, () => nowMs)
  await eventually(() => source.state === 'connected')
  nowMs += 30_000
  host.refuseWithStatus = 503
  await eventually(() => endAll(host) && source.state === 'connecting')
  nowMs += 119_999
  assert.equal(source.state, 'connecting')
  nowMs += 1
  assert.equal(source.state, 'unreachable')
  host.refuseWithStatus = undefined
  connection.reconnect()
  await eventually(() => source.state === 'connected')
  await connection.close()
})

test('a connection that brings nothing and ends at once does not make a source reachable', async () => {
  await using host = await startHost()
  let nowMs = 1_000_000
  const { source, connection } = connect(host, {}, () => nowMs)
  for (let dialled = 0; dialled < 5; dialled++) {
    await eventually(() => source.state === 'connected')
    nowMs += 1000
    await eventually(() => endAll(host) && source.state !== 'connected')
    assert.equal(source.state, nowMs - 1_000_000 < 120_000 ? 'connecting' : 'unreachable')
    nowMs += 40_000
    connection.reconnect()
  }
  await connection.close()
})

test('pings and notices use up the allowance of a source, and it is not read until there is more', async () => {
  await using host = await startHost()
  const bucket = new TokenBucket({ perSecond: 100 }, () => 0)
  const { source, connection } = connect(host, {}, Date.now, [bucket])
  await eventually(() => source.state === 'connected')
  const open = await host.connection()
  for (let n = 0; n < 30; n++) open.send(encodeEvent('#info', { name: 'x' }))
  open.writeRaw(Buffer.alloc(60, Buffer.from([0x8a, 0])))
  await open.ping()
  assert.equal(source.state, 'connected')
  open.writeRaw(Buffer.alloc(2 * 600, Buffer.from([0x8a, 0])))
  await eventually(() => source.state === 'throttled')
  assert.deepEqual([source.condition.reason, source.lastError], ['rate', undefined])
  await connection.close()
})

test('messages that cannot be read use up the allowance of a source eight times as fast', async () => {
  await using host = await startHost()
  const bucket = new TokenBucket({ perSecond: 1000 }, () => 0)
  const { source, connection } = connect(host, {}, Date.now, [bucket])
  await eventually(() => source.state === 'connected')
  const open = await host.connection()
  for (let n = 0; n < 100; n++) open.send(Uint8Array.of(0xa0))
  await open.ping()
  assert.equal(source.state, 'connected')
  for (let n = 0; n < 100; n++) open.send(Uint8Array.of(0xa0))
  await eventually(() => source.state === 'throttled')
  assert.equal(source.condition.reason, 'rate')
  await connection.close()
})

test('a source that numbers its events anew again is read from its oldest one an hour later, and is not stuck then', async () => {
  await using host = await startHost()
  let nowMs = 10 * 3_600_000
  const { source, connection } = connect(host, {}, () => nowMs)
  const renumber = async (): Promise<void> => {
    const open = await host.connection()
    const next = host.nextConnection()
    const { lastErrorAtMs } = source
    nowMs++
    open.send(encodeError('FutureCursor', 'Cursor in the future.'))
    await eventually(() => source.lastErrorAtMs > lastErrorAtMs)
    connection.reconnect()
    await next
    await eventually(() => source.reading.isOpen)
  }
  await renumber()
  assert.deepEqual([source.epoch, source.state], [2, 'connected'])
  await renumber()
  assert.deepEqual([source.epoch, source.condition.reason], [2, 'renumbered again within the hour'])
  nowMs += 3_600_001
  await renumber()
  assert.deepEqual([source.epoch, source.state], [3, 'connected'])
  // The clock was ahead when that began.
  source.epochAtMs = nowMs + 3_600_000
  await renumber()
  assert.deepEqual([source.epoch, source.state], [4, 'connected'])
  await connection.close()
})

test('a source that was taken for a relay by mistake is not stuck when it has a connection', async () => {
  await using host = await startHost()
  const { source, connection } = connect(host)
  await eventually(() => source.state === 'connected')
  source.stuckReason = 'relay-loop'
  assert.equal(source.state, 'stuck')
  const next = host.nextConnection()
  for (const open of host.connections) open.terminate()
  await next
  await eventually(() => source.state === 'connected')
  await connection.close()
})
