import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { sampleMessage } from '../../tests/sample-message.ts'
import { sampleSource } from '../../tests/sample-source.ts'
import { TestClock } from '../../tests/test-clock.ts'
import { finish, newEvent, type UpstreamEvent } from '../sources/upstream-event.ts'
import { AccountTable } from '../state/account-table.ts'
import { HeldUpSources } from './held-up-sources.ts'
import { waitLimits } from './limits.ts'

const { pending: max } = waitLimits

for (const [when, isSetBack] of [
  ['once it has waited for long enough', false],
  ['at once when the clock was set back since it came', true],
] as const)
  test(`an event that holds up its source is left out ${when}`, () => {
    const clock = new TestClock()
    let nowMs = clock.nowMs()
    const source = sampleSource()
    const account = new AccountTable().take('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' as Did) // of the right form
    const receive = (upstreamSeq: number): UpstreamEvent => {
      const event = newEvent(source, account, sampleMessage(upstreamSeq), nowMs)
      source.begin(event.receipt)
      return event
    }
    let tick = (): void => {}
    const leftOut: number[] = []
    const heldUp: boolean[] = []
    using held = new HeldUpSources({
      max,
      clock: {
        nowMs: () => nowMs,
        every: (_, call) => {
          tick = call
          return { [Symbol.dispose]: () => {} }
        },
        after: (ms, call) => clock.after(ms, call),
      },
      leaveOut: (event) => {
        leftOut.push(event.receipt.upstreamSeq)
        finish(event, 0)
        return true
      },
      onHeldUp: (_, isHeldUp) => heldUp.push(isHeldUp),
    })
    receive(1)
    nowMs += isSetBack ? -3_600_000 : max.waitMs - 1
    for (let seq = 2; seq <= max.eventsMax + 1; seq++) finish(receive(seq), 0)
    held.look(source)
    if (!isSetBack) {
      assert.deepEqual([leftOut, heldUp], [[], [true]])
      nowMs++
      tick()
    }
    assert.deepEqual(leftOut, [1])
    assert.deepEqual(heldUp, isSetBack ? [] : [true, false])
  })
