import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { sampleMessage } from '../../tests/sample-message.ts'
import { sampleSource } from '../../tests/sample-source.ts'
import { newAccount } from '../../tests/sample-account.ts'
import { finish, newEvent } from './upstream-event.ts'

const did = 'did:plc:a' as Did // only a name here

test('the cursor passes an event when it is done and what it left behind is durable, in order', () => {
  const source = sampleSource()
  const [logged, refused, marked, last] = [11, 12, 13, 14].map((upstreamSeq) => {
    const event = newEvent(source, newAccount(did), sampleMessage(upstreamSeq), 0)
    source.begin(event.receipt)
    return event
  })
  assert.ok(logged && refused && marked && last)
  finish(refused, 0)
  finish(marked, 0, 7)
  finish(last, 0)
  assert.ok(!source.advance(7))
  finish(logged, 6)
  assert.ok(!source.advance(5))
  assert.ok(source.advance(6))
  assert.equal(source.cursor, 12)
  assert.ok(source.advance(7))
  assert.equal(source.cursor, 14)
  assert.equal(source.eventsLogged, 1)
})
