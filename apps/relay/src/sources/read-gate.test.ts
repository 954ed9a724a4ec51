import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReadGate, type PauseReason } from './read-gate.ts'

/** An allowance whose events and waits a test sets. */
class Fixed {
  available: number
  waitMs = 1
  spent = 0

  constructor(available: number) {
    this.available = available
  }

  spend(events: number): void {
    this.available -= events
    this.spent += events
  }

  waitMsFor(events: number): number {
    return this.available >= events ? 0 : this.waitMs
  }
}

function gateOn(...allowances: Fixed[]): { gate: ReadGate; told: (PauseReason | undefined)[] } {
  const told: (PauseReason | undefined)[] = []
  return { gate: new ReadGate(allowances, (reason) => told.push(reason)), told }
}

test('reading goes on while every allowance has some left, and each is charged alike', () => {
  const [own, all] = [new Fixed(100), new Fixed(1000)]
  const { gate, told } = gateOn(own, all)
  for (let read = 0; read < 100; read++) gate.pass()
  assert.deepEqual([gate.reason, told, own.available], [undefined, [], 0])
  assert.equal(own.spent, all.spent)
})

test('an allowance that is used up pauses reading; what was read already is paid before it goes on', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const own = new Fixed(2)
  own.waitMs = 500
  const { gate, told } = gateOn(own, new Fixed(1000))
  for (let read = 0; read < 5; read++) gate.pass()
  assert.deepEqual(told, ['rate'])
  t.mock.timers.tick(499)
  own.available = 2
  t.mock.timers.tick(1)
  assert.deepEqual(told, ['rate'], 'three were read beyond it')
  own.available = 3
  t.mock.timers.tick(500)
  assert.deepEqual([told, own.available], [['rate', undefined], 0])
  gate.close()
})

test('an allowance that is raised while hours have to be waited is noticed within a second', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const own = new Fixed(0)
  own.waitMs = 7_200_000
  const { gate, told } = gateOn(own)
  gate.pass()
  own.available = 10
  t.mock.timers.tick(1000)
  assert.deepEqual(told, ['rate', undefined])
  gate.close()
})

test('reasons to pause add up, and the first that still holds is told', () => {
  const { gate, told } = gateOn(new Fixed(1))
  gate.setPaused('backlog', true)
  gate.setPaused('disk-floor', true)
  gate.setPaused('disk-floor', true)
  gate.setPaused('backlog', false)
  assert.notEqual(gate.reason, undefined)
  gate.setPaused('disk-floor', false)
  assert.deepEqual(told, ['backlog', 'disk-floor', undefined])
})
