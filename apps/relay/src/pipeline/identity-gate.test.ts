import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { IdentityGate } from './identity-gate.ts'

/** An `#identity` that no other one equals. */
let made = 0
const message = () => ({ bytes: Buffer.from(`event ${made++}`), seqStart: 0, seqEnd: 0 })
const did = (n: number): Did => `did:plc:${n}` as Did // only a name here

test('an account has ten #identity events a minute', () => {
  const gate = new IdentityGate()
  let passed = 0
  for (let n = 0; n < 30; n++) if (!gate.refusalOf(did(1), message(), n)) passed++
  assert.equal(passed, 10)
  assert.equal(gate.refusalOf(did(1), message(), 60_000), undefined)
})

test('a host that names ten thousand accounts does not let an account pass more', () => {
  const gate = new IdentityGate()
  let passed = 0
  for (let n = 0; n < 30_000; n++) {
    if (n % 100 === 0 && !gate.refusalOf(did(-1), message(), 0)) passed++
    gate.refusalOf(did(n), message(), 0)
  }
  assert.equal(passed, 10)
})
