import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { newAccount } from '../../tests/sample-account.ts'
import { sampleMessage } from '../../tests/sample-message.ts'
import { sampleSource } from '../../tests/sample-source.ts'
import { systemClock } from '../clock.ts'
import { newEvent } from '../sources/upstream-event.ts'
import { Outcomes, type OutcomeOptions } from './outcomes.ts'

const newestSeq = 7

/** Refuses an event, and tells which record of our log must be stored before the cursor passes the event. */
function passedWith(
  isMissed: boolean,
  reason: 'invalid-mst' | 'wrong-host' | 'identity-unavailable',
): number {
  const options = {
    log: { onDurable: () => undefined },
    trail: { newestSeq, push: () => undefined, forget: () => undefined },
    accounts: { forget: () => undefined },
    resolver: { peek: () => undefined },
    speakerOf: () => undefined,
    recovery: { missing: () => true, lookAgainAt: () => undefined },
    observer: { onRefused: () => undefined },
  } as unknown as OutcomeOptions // all of them that a refusal uses
  const event = newEvent(sampleSource(), newAccount('did:plc:a' as Did), sampleMessage(1), 0) // only a name here
  new Outcomes(options, systemClock).refuseFor(event, { to: 'refuse', reason, detail: '', isMissed })
  return event.receipt.doneBy
}

test('a cursor passes a refused event when what must not be forgotten of it is stored, and at once if nothing is', () => {
  assert.equal(passedWith(true, 'invalid-mst'), newestSeq)
  assert.equal(passedWith(true, 'identity-unavailable'), newestSeq)
  assert.equal(passedWith(false, 'wrong-host'), newestSeq, 'who else has written for the account')
  assert.equal(passedWith(false, 'invalid-mst'), 0)
})
