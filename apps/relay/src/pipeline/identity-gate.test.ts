import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeFrame, type Did } from '@tributary/protocol'
import { readMessage } from '@tributary/repo-verify'
import { IdentityGate } from './identity-gate.ts'
import type { LogMessage } from './plain-events.ts'

/** An `#identity` that no other one equals. */
let made = 0
const message = () => ({ bytes: Buffer.from(`event ${made++}`), seqStart: 0, seqEnd: 0 })
const pds = { host: 'pds.example.com', isShared: false }
const relay = { host: 'relay.example.com', isShared: true }
const did = (n: number): Did => `did:plc:${n}` as Did // only a name here

test('an account has ten #identity events a minute', () => {
  const gate = new IdentityGate()
  let passed = 0
  for (let n = 0; n < 30; n++) if (!gate.refusalOf(did(1), message(), n, pds)) passed++
  assert.equal(passed, 10)
  assert.equal(gate.refusalOf(did(1), message(), 60_000, pds), undefined)
})

test('a relay that goes on about an account takes none of the events that another source brings of it', () => {
  const gate = new IdentityGate()
  for (let n = 0; n < 30; n++) gate.refusalOf(did(1), message(), 0, relay)
  assert.equal(gate.refusalOf(did(1), message(), 0, relay)?.reason, 'too-many-identity-events')
  for (const source of [pds, { ...relay, host: 'another.example.com' }])
    assert.equal(gate.refusalOf(did(1), message(), 0, source), undefined)
})

test('a host that names ten thousand accounts does not let an account pass more', () => {
  const gate = new IdentityGate()
  let passed = 0
  for (let n = 0; n < 30_000; n++) {
    if (n % 100 === 0 && !gate.refusalOf(did(-1), message(), 0, pds)) passed++
    gate.refusalOf(did(n), message(), 0, pds)
  }
  assert.equal(passed, 10)
})

const time = '2026-01-01T00:00:00.000Z'

/** What a relay says of an account at a time, with a seq of its own. */
function forwarded(account: Did, atTime: string, seq: number): LogMessage {
  const message = readMessage(encodeFrame('#identity', { seq, did: account, time: atTime }))
  assert.ok(message.ok && message.kind === 'identity')
  return message
}

test('relays that read each other pass each event of another relay on once, however many come together', () => {
  const accounts = 4000
  const gates = [new IdentityGate(), new IdentityGate()]
  let passed = 0
  let seq = 1
  let nowMs = 0
  // Each event goes to one relay first, and from each that passes it on to the other one.
  let onTheirWay = Array.from({ length: accounts }, (_, n) => n)
  for (let round = 0; round < 10; round++) {
    const gate = gates[round % 2]
    nowMs += 30_000
    onTheirWay = onTheirWay.filter((n) => {
      const isPassed = gate?.refusalOf(did(n), forwarded(did(n), time, seq), nowMs, relay) === undefined
      seq += isPassed ? 300 : 0
      return isPassed
    })
    passed += onTheirWay.length
  }
  assert.equal(passed, 2 * accounts)
  const later = '2026-01-01T00:00:01.000Z'
  assert.equal(gates[0]?.refusalOf(did(1), forwarded(did(1), later, 1), nowMs, relay), undefined)
})

test('an event of a relay is known again for an hour, and after a hundred thousand others', () => {
  const gate = new IdentityGate()
  const isPassed = (n: number, nowMs: number): boolean =>
    gate.refusalOf(did(n), { bytes: Buffer.from(`${n}`), seqStart: 0, seqEnd: 0 }, nowMs, relay) === undefined
  for (let n = 0; n <= 100_000; n++) assert.ok(isPassed(n, 0))
  assert.deepEqual([isPassed(0, 3_000_000), isPassed(100_000, 3_000_000)], [false, false])
  // Its memory is bounded in time.
  assert.ok(isPassed(-1, 4_000_000))
  assert.ok(isPassed(-2, 8_000_000))
  assert.ok(isPassed(0, 8_000_000))
})

test('a host that sends the same event of its account again after a while is heard', () => {
  const gate = new IdentityGate()
  const said = [0, 5000, 60_000].map((nowMs) =>
    gate.refusalOf(did(1), forwarded(did(1), time, nowMs + 1), nowMs, pds),
  )
  assert.deepEqual(
    said.map((refusal) => refusal?.reason),
    [undefined, 'repeated', undefined],
  )
})
