import assert from 'node:assert/strict'
import { test } from 'node:test'
import { did } from '../tests/scenario.ts'
import { GoneAnswers, goneAgainMs } from './gone-answers.ts'

class World {
  nowMs = 0
  readonly doubts: boolean[] = []
  readonly answers = new GoneAnswers({
    onDoubt: (isDoubted) => this.doubts.push(isDoubted),
    nowMs: () => this.nowMs,
  })
}

test('an answer that an account is gone counts when it comes again a quarter of an hour later', () => {
  const world = new World()
  world.answers.found(did('other'))
  assert.equal(world.answers.gone(did('A')), false)
  world.nowMs = goneAgainMs - 1
  assert.equal(world.answers.gone(did('A')), false)
  world.nowMs = goneAgainMs
  assert.equal(world.answers.gone(did('A')), true)
  world.answers.found(did('A'))
  assert.equal(world.answers.gone(did('A')), false)
  assert.deepEqual(world.doubts, [])
})

test('after ten in a row none counts until an account is found, and both are told', () => {
  const world = new World()
  world.answers.found(did('other'))
  for (let i = 0; i < 10; i++) world.answers.gone(did(`a${i}`))
  world.nowMs = 2 * goneAgainMs
  assert.equal(world.answers.gone(did('a0')), false)
  assert.deepEqual(world.doubts, [true])
  world.answers.found(did('other'))
  assert.equal(world.answers.gone(did('a0')), true)
  assert.deepEqual(world.doubts, [true, false])
})

test('nothing counts before the first account is found, as with a wrong address of the directory', () => {
  const world = new World()
  for (const nowMs of [0, goneAgainMs, 2 * goneAgainMs]) {
    world.nowMs = nowMs
    assert.equal(world.answers.gone(did('A')), false)
  }
  assert.deepEqual(world.doubts, [true])
})
