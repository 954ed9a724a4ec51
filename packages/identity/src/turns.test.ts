import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Turns } from './turns.ts'

const newTurns = (): Turns =>
  new Turns({
    perSecond: 1e9,
    placesMax: 4,
    waitingMax: 8,
    waitMsMax: 1000,
    nowMs: () => 0,
    delay: () => assert.fail('there are turns enough'),
  })

test('one cause alone has half of the places and half of the queue, and the next finds room', () => {
  const turns = newTurns()
  const entered = []
  while (!turns.refusal('a.com')) entered.push(turns.enter('a.com'))
  assert.equal(entered.filter(({ holder }) => holder !== undefined).length, 2)
  assert.equal(entered.length, 2 + 4)
  assert.equal(turns.refusal('b.com'), undefined)
  assert.equal(turns.enter('b.com').holder, 'b.com')
})

test('places and room in the queue are given back, however often they were taken', () => {
  const turns = newTurns()
  for (let round = 0; round < 20; round++) {
    const entered = []
    while (!turns.refusal('a.com')) entered.push(turns.enter('a.com'))
    assert.equal(entered.length, 6, `round ${round}`)
    for (const turn of entered) {
      assert.equal(turn.holder, 'a.com')
      turns.leave(turn)
    }
  }
})

test('what is asked for all at once begins at its pace, but for the first few', () => {
  let nowMs = 0
  const turns = new Turns({
    perSecond: 500,
    placesMax: 256,
    waitingMax: 4096,
    waitMsMax: 5000,
    nowMs: () => nowMs,
    delay: () => new Promise(() => {}),
  })
  nowMs += 60_000
  const entered = Array.from({ length: 100 }, () => turns.enter('a.com'))
  assert.equal(entered.filter(({ holder }) => holder !== undefined).length, 20)
})

test('turns that are let go a little late keep their pace', async () => {
  const startMs = 60_000
  let nowMs = startMs
  const turns = new Turns({
    perSecond: 500,
    placesMax: 4096,
    waitingMax: 4096,
    waitMsMax: 60_000,
    nowMs: () => nowMs,
    delay: async (ms) => void (nowMs += ms + 5),
  })
  const entered = Array.from({ length: 1000 }, () => turns.enter('a.com'))
  await Promise.all(entered.map(({ begun }) => begun))
  assert.ok(nowMs - startMs < 2000, `${nowMs - startMs} ms`)
})
