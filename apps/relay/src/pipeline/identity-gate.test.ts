import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { IdentityGate } from './identity-gate.ts'

/** An `#identity` that no other one equals. */
let made = 0
const message = () => ({ bytes: Buffer.from(`event ${made++}`), seqStart: 0, seqEnd: 0 })
const did = (n: number): Did => `did:plc:${n}` as Did // only a name here

test('an account has ten #identity events a minute, of its own host and of others each', () => {
  const gate = new IdentityGate()
  const passed = { own: 0, foreign: 0 }
  for (let n = 0; n < 30; n++) {
    if (!gate.refusalOf(did(1), message(), n, true)) passed.own++
    if (!gate.refusalOf(did(1), message(), n, false)) passed.foreign++
  }
  assert.deepEqual(passed, { own: 10, foreign: 10 })
  assert.equal(gate.refusalOf(did(1), message(), 60_000, true), undefined)
})

test('a host that names ten thousand accounts does not let an account pass more', () => {
  const gate = new IdentityGate()
  let passed = 0
  for (let n = 0; n < 30_000; n++) {
    if (n % 100 === 0 && !gate.refusalOf(did(-1), message(), 0, false)) passed++
    gate.refusalOf(did(n), message(), 0, false)
  }
  assert.equal(passed, 10)
})
