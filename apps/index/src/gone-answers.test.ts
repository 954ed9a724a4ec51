import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
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

test('an account of did:web that is found says nothing of the directory', () => {
  const world = new World()
  const web = (name: string): Did => `did:web:${name}.example` as Did // DID syntax
  world.answers.found(did('other'))
  assert.equal(world.answers.gone(did('A')), false)
  for (let i = 0; i < 10; i++) world.answers.gone(did(`a${i}`))
  world.nowMs = goneAgainMs
  world.answers.found(web('honest'))
  assert.equal(world.answers.gone(did('A')), false)
  assert.deepEqual(world.doubts, [true])
  assert.equal(world.answers.gone(web('left')), false)
  world.nowMs = 2 * goneAgainMs
  assert.equal(world.answers.gone(web('left')), true, 'of its own owner')
  world.answers.found(did('other'))
  assert.equal(world.answers.gone(did('A')), true)
  assert.deepEqual(world.doubts, [true, false])
})

test('accounts of did:web that are gone have none of the directory doubted, and not each other once one of it is found', () => {
  const world = new World()
  world.answers.found(did('other'))
  for (let i = 0; i < 20; i++) world.answers.gone(`did:web:${i}.example` as Did) // DID syntax
  assert.deepEqual(world.doubts, [true])
  assert.equal(world.answers.gone(did('A')), false)
  world.nowMs = goneAgainMs
  assert.equal(world.answers.gone(did('A')), true)
  world.answers.found(did('other'))
  assert.deepEqual(world.doubts, [true, false])
  assert.equal(world.answers.gone('did:web:1.example' as Did), true) // DID syntax
})

test('one account has none of the others doubted, however often it is asked about', () => {
  const world = new World()
  world.answers.found(did('other'))
  assert.equal(world.answers.gone(did('A')), false)
  for (let i = 0; i < 50; i++) world.answers.gone(did('restless'))
  assert.deepEqual(world.doubts, [])
  world.nowMs = goneAgainMs
  assert.equal(world.answers.gone(did('A')), true)
  assert.equal(world.answers.gone(did('restless')), true)
})
