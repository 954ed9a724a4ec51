import assert from 'node:assert/strict'
import { test } from 'node:test'
import { messageTypes, oddlyExtended, randomMessage } from './message-grammar.ts'
import { randomFrom } from './random.ts'
import { Signer } from './signer.ts'
import { SignedRepo } from './signed-repo.ts'
import { strictFault } from './strict-decoders.ts'

function repoOf(name: string): SignedRepo {
  const repo = new SignedRepo(`did:plc:${name.padEnd(24, 'a')}`, Signer.fromSeed(name))
  repo.commit([])
  return repo
}

const own = repoOf('own')
const victim = repoOf('victim')

test('messages of every kind are drawn, right ones and wrong ones', () => {
  const random = randomFrom(1)
  const actors = { own, others: [victim], otherDids: [victim.did] }
  const messages = Array.from({ length: 2000 }, (_, seq) => randomMessage(random, actors, { seq: seq + 1 }))
  const right = messages.filter((message) => strictFault(message) === undefined)
  assert.ok(right.length > 200 && right.length < 1800, `${right.length} of ${messages.length} are readable`)
  for (const type of messageTypes.slice(0, 5))
    assert.ok(
      right.some((message) => Buffer.from(message).includes(type)),
      type,
    )
})

test('an event with odd fields starts like the event that a careful host sends', () => {
  const random = randomFrom(2)
  for (const type of ['#commit', '#sync', '#identity', '#account'] as const) {
    const message = Buffer.from(oddlyExtended(random, type, own, 9))
    assert.ok(message.includes(type) && message.includes(own.did), type)
  }
})
