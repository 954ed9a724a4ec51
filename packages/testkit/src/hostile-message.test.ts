import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { decode, decodeFirst, fromBytes } from '@atcute/cbor'
import { parseDidKey, verifyEvent } from '@tributary/repo-verify'
import {
  commitBody,
  encodeEvent,
  hostileKinds,
  hostileMessage,
  startPlc,
  startScriptedHost,
} from './index.ts'
import type { HostileKind } from './index.ts'

const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const elsewhere = await startScriptedHost({ plcUrl: plc.url })
after(async () => {
  await host.stop()
  await elsewhere.stop()
  await plc.stop()
})

const account = await host.createAccount()
const other = await elsewhere.createAccount()

function verify(message: Uint8Array, key = account.signer.did()) {
  return verifyEvent(message, { key: parseDidKey(key), nowMs: Date.now(), strict: true })
}

/** Good in themselves: only a reader that remembers the account can refuse them. */
const contextual: readonly HostileKind[] = ['foreign-account', 'stale-rev', 'missing-prev-data']

for (const kind of hostileKinds) {
  const refusal = contextual.includes(kind) ? 'passes where nothing is remembered' : 'is refused'
  test(`${kind} ${refusal}`, () => {
    const key = kind === 'foreign-account' ? other.signer.did() : undefined
    const result = verify(hostileMessage(kind, { account, other, seq: 7 }), key)
    assert.equal(result.ok, contextual.includes(kind), JSON.stringify(result))
  })
}

test('the commit that hostile messages start from passes', () => {
  const draft = account.draft([{ action: 'create', collection: 'a.b.c', rkey: 'd', record: {} }])
  const event = encodeEvent('#commit', { seq: 7, time: new Date().toISOString(), ...commitBody(draft) })
  assert.equal(verify(event).ok, true)
})

test('a message and its blocks miss their limits by one byte', () => {
  const context = { account, other, seq: 7 }
  assert.equal(hostileMessage('oversized-message', context).length, 5_000_001)
  const [, payload] = decodeFirst(hostileMessage('blocks-too-large', context))
  assert.equal(fromBytes(decode(payload).blocks).length, 2_000_001)
})
