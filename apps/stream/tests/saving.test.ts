/** What is saved of the relay's position, and when. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { VerifyPool } from '@tributary/verify-pool'
import { startSlowPlc } from './slow-plc.ts'
import { startIngest } from './start-ingest.ts'

const follow = 'app.attested.graph.follow'
/** By then an event that was read is stored, on any machine that is not overloaded. */
const storedWithinMs = 500

test('the saved position is before an event that waits, and a reconnect asks for what comes after all that came', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using slowPlc = await startSlowPlc(plc.url)
  await using directory = await mkdtempDisposable(join(tmpdir(), 'saving-'))
  const [late, prompt] = [
    await host.createAccount({ announce: false }),
    await host.createAccount({ announce: false }),
  ]
  const asked = slowPlc.hold(late.did)
  const { seq } = late.create(follow, {}, 'late')
  {
    await using ingest = await startIngest({
      directory: directory.path,
      relayUrl: host.url,
      plcUrl: slowPlc.url,
      saveMs: 1,
    })
    await asked
    prompt.create(follow, {}, 'prompt')
    await ingest.until(() => ingest.rows.length === 1)
    await eventually(() => ingest.states.covered.appliedSeq === ingest.rows[0]?.seq)
    assert.equal(ingest.states.position?.cursor, seq - 1)
    const [connection] = host.connections
    const next = host.nextConnection()
    connection?.close()
    assert.equal((await next).cursor, host.lastSeq)
  }
  slowPlc.release(late.did)
  await using again = await startIngest({
    directory: directory.path,
    relayUrl: host.url,
    plcUrl: slowPlc.url,
  })
  await again.until(() => again.rows.length === 1)
  assert.equal(again.rows[0]?.rkey, 'late')
})

test('an event that waited while the numbering began anew does not move the position of the new one', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using slowPlc = await startSlowPlc(plc.url)
  await using directory = await mkdtempDisposable(join(tmpdir(), 'saving-'))
  const create = async () => await host.createAccount({ announce: false })
  const [before, prompt, after] = [await create(), await create(), await create()]
  const asked = [before, after].map(async ({ did }) => slowPlc.hold(did))
  await using ingest = await startIngest({
    directory: directory.path,
    relayUrl: host.url,
    plcUrl: slowPlc.url,
  })
  before.create(follow, {}, 'before')
  for (const rkey of ['1', '2']) prompt.create(follow, {}, rkey)
  await ingest.until(() => ingest.rows.length === 2)
  host.restartNumbering()
  after.create(follow, {}, 'after')
  await Promise.all(asked)
  slowPlc.release(before.did)
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'before')
  assert.equal(ingest.ingest.cursor, 0)
  slowPlc.release(after.did)
  await ingest.until(() => ingest.rows.at(-1)?.rkey === 'after')
})

test('an event of a kind that nobody knows does not hold up the position', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'saving-'))
  await using stream = await startIngest({ directory: directory.path, relayUrl: host.url })
  const account = await host.createAccount({ announce: false })
  host.emit('#somethingNew', { did: account.did })
  account.create(follow, {}, 'a')
  await stream.until(() => stream.rows.length === 1)
  assert.equal(stream.ingest.cursor, host.lastSeq)
})

test('the relay is not read while more is under way to the disk than memory should hold', async (t) => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'saving-'))
  const account = await host.createAccount({ announce: false })
  await using stream = await startIngest({ directory: directory.path, relayUrl: host.url })
  const askForRoom = t.mock.method(stream.archive, 'askForRoom', () => false)
  account.create(follow, {}, 'a')
  await stream.until(() => stream.rows.length === 1)
  account.create(follow, {}, 'b')
  await pause(storedWithinMs)
  assert.equal(stream.rows.length, 1)
  askForRoom.mock.restore()
  // A block that was written makes room.
  await stream.archive.seal()
  await stream.until(() => stream.rows.length === 2)
})

test('the relay is not read while the disk has too little room', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'saving-'))
  const account = await host.createAccount({ announce: false })
  await using stream = await startIngest({ directory: directory.path, relayUrl: host.url })
  account.create(follow, {}, 'a')
  await stream.until(() => stream.rows.length === 1)
  stream.archive.setTooLittleDisk(true)
  account.create(follow, {}, 'b')
  await pause(storedWithinMs)
  assert.equal(stream.rows.length, 1)
  stream.archive.setTooLittleDisk(false)
  await stream.until(() => stream.rows.length === 2)
})

test('the relay is not read while more is being verified than memory should hold', async (t) => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'saving-'))
  const account = await host.createAccount({ announce: false })
  const options = { directory: directory.path, relayUrl: host.url, plcUrl: plc.url }
  await using stream = await startIngest(options)
  const pending = t.mock.getter(VerifyPool.prototype, 'pendingBytes', () => 2 * 1024 * 1024)
  account.create(follow, {}, 'a')
  await stream.until(() => stream.rows.length === 1)
  account.create(follow, {}, 'b')
  await pause(storedWithinMs)
  assert.equal(stream.rows.length, 1)
  pending.mock.restore()
  // What becomes durable has the ingest look again.
  await stream.archive.seal()
  await stream.until(() => stream.rows.length === 2)
})

test('a stop saves the position, so that nothing is asked for again', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'saving-'))
  const options = { directory: directory.path, relayUrl: host.url, plcUrl: plc.url }
  const account = await host.createAccount({ announce: false })
  account.create(follow, {}, 'a')
  {
    await using ingest = await startIngest(options)
    await ingest.until(() => ingest.rows.length === 1)
    await eventually(() => ingest.ingest.cursor === host.lastSeq)
  }
  const connected = host.nextConnection()
  await using _ = await startIngest(options)
  assert.equal((await connected).cursor, host.lastSeq)
})

test('the log may let go of rows that the saved states account for, and not of those that came meanwhile', async (t) => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'saving-'))
  const account = await host.createAccount({ announce: false })
  await using stream = await startIngest({ directory: directory.path, relayUrl: host.url, saveMs: 1 })
  const { archive } = stream
  const gate = Promise.withResolvers<void>()
  const whenDurable = t.mock.method(archive, 'whenDurable', () => gate.promise)
  const stateSaved = t.mock.method(archive, 'stateSaved')
  account.create(follow, {}, 'a')
  await stream.until(() => stream.rows.length === 1)
  await eventually(() => whenDurable.mock.callCount() > 0)
  account.create(follow, {}, 'b')
  await stream.until(() => stream.rows.length === 2)
  assert.equal(stateSaved.mock.callCount(), 0)
  whenDurable.mock.restore()
  gate.resolve()
  await eventually(() => stateSaved.mock.callCount() > 0)
  const { appliedSeq = Infinity } = stateSaved.mock.calls[0]?.arguments[0] ?? {}
  assert.ok(appliedSeq < (stream.rows[1]?.seq ?? 0), `${appliedSeq}`)
})

test('rows that came into a block are saved as such though no event follows, so that the log may let go of them', async (t) => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'saving-'))
  const account = await host.createAccount({ announce: false })
  await using stream = await startIngest({ directory: directory.path, relayUrl: host.url, saveMs: 1 })
  const { archive, states } = stream
  account.create(follow, {}, 'a')
  await eventually(() => states.covered.appliedSeq > 0 && states.position?.cursor === host.lastSeq)
  assert.equal(states.covered.blockSeq, 0)
  await archive.seal()
  // The states are looked at every millisecond. Nothing of them has changed.
  let looks = 0
  t.mock.getter(states, 'dirtyCount', () => {
    looks++
    return 0
  })
  await eventually(() => looks > 20)
  assert.equal(states.covered.blockSeq, stream.rows[0]?.seq)
})
