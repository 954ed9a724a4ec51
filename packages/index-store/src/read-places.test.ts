import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { ReadPlaces } from './read-places.ts'

const later = performance.now() + 3_600_000

/** Places, and the causes that had them in order. `-` is none. */
function places() {
  const all = new ReadPlaces(8)
  const entered: string[] = []
  const waits: Promise<unknown>[] = []
  const causeOf = (name: string): string | undefined => (name === '-' ? undefined : name)
  const enter = (cause: string, signal?: AbortSignal): void => {
    const entering = all.enter(later, signal, causeOf(cause)).then(() => entered.push(cause))
    waits.push(entering.catch(() => undefined))
  }
  const leave = async (cause: string): Promise<void> => {
    all.leave(causeOf(cause))
    await nextTurn()
  }
  return { entered, waits, enter, leave }
}

test('those who wait for a place have their turns by cause, and no cause has more than half of what is free', async () => {
  const { entered, enter, leave } = places()
  for (const cause of 'aaaaaaaabbbbccdef') enter(cause)
  await nextTurn()
  assert.equal(entered.join(''), 'aaaabbcd')
  entered.length = 0
  await leave('c')
  await leave('d')
  await leave('a')
  assert.equal(entered.join(''), 'cef')
  for (const cause of 'aaab') await leave(cause)
  assert.equal(entered.join(''), 'cefaab')
  for (const cause of 'cefa') await leave(cause)
  assert.equal(entered.join(''), 'cefaababa')
})

test('many reads without a cause let one with a cause have its turn', async () => {
  const { entered, enter, leave } = places()
  for (const cause of '-----------a') enter(cause)
  await nextTurn()
  assert.equal(entered.join(''), '--------')
  for (let n = 0; n < 4; n++) await leave('-')
  assert.equal(entered.join(''), '---------a--')
})

test('a place that is given back goes to whoever still waits', async () => {
  const { entered, waits, enter, leave } = places()
  const gone = new AbortController()
  for (const cause of 'aaaabbcd') enter(cause)
  enter('e', gone.signal)
  enter('f')
  await nextTurn()
  gone.abort(new Error('gone'))
  await nextTurn()
  await leave('d')
  await Promise.all(waits)
  assert.equal(entered.join(''), 'aaaabbcdf')
})
