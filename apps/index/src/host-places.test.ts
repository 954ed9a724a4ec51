import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { HostPlaces, NoPlaceError } from './host-places.ts'

const alice = 'did:plc:alice' as Did // DID syntax

/** Questions that are answered when the test says so. */
class Asked {
  nowMs = 0
  readonly places = new HostPlaces({ placesMax: 16, apartMs: 10, nowMs: () => this.nowMs })
  readonly #answers: (() => void)[] = []
  #accounts = 0

  /** Asks as long as there are places. Returns how many there were. */
  async fill(cause: string): Promise<number> {
    for (let asked = 0; ; asked++) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const work = this.places.within(cause, this.#someAccount(), () => promise)
      const isRefused = await Promise.race([
        work.then(
          () => false,
          () => true,
        ),
        new Promise<boolean>((resolve) => setImmediate(resolve, false)),
      ])
      if (isRefused) return asked
      this.#answers.push(resolve)
    }
  }

  /** The hosts have answered quickly, often. */
  async know(...hosts: string[]): Promise<void> {
    for (const host of hosts)
      for (let n = 0; n < 8; n++) await this.places.within(host, this.#someAccount(), async () => undefined)
  }

  async answerAll(): Promise<void> {
    for (const answer of this.#answers.splice(0)) answer()
    await new Promise(setImmediate)
  }

  /** Answers the first question. */
  async answerSome(): Promise<void> {
    for (const answer of this.#answers.splice(0, 1)) answer()
    await new Promise(setImmediate)
  }

  /** Asks once more, about another account unless it is named, and returns how long that must wait. */
  async wait(cause: string, did = this.#someAccount()): Promise<number> {
    const refused: unknown = await this.places
      .within(cause, did, async () => undefined)
      .catch((error: unknown) => error)
    return refused instanceof NoPlaceError ? refused.waitMs : 0
  }

  #someAccount(): Did {
    return `did:plc:${this.#accounts++}` as Did // DID syntax
  }
}

test('a host alone has half of the places, and others have theirs while it does not answer', async () => {
  const asked = new Asked()
  await asked.know('a', 'b', 'c')
  assert.deepEqual([await asked.fill('a'), await asked.fill('b'), await asked.fill('c')], [8, 4, 2])
  assert.equal(await asked.fill('a'), 0)
  await asked.answerAll()
  assert.equal(await asked.fill('a'), 8)
})

test('those who find no place are told to come back one after the other', async () => {
  const asked = new Asked()
  await asked.know('a', 'b')
  await asked.fill('a')
  assert.deepEqual([await asked.wait('a'), await asked.wait('a'), await asked.wait('b')], [1010, 1020, 0])
  // The places of a host that answers after four seconds become free every half a second.
  asked.nowMs = 4000
  await asked.answerSome()
  await asked.fill('a')
  assert.deepEqual([await asked.wait('a'), await asked.wait('a')], [1500, 2000])
})

test('an account that asks again is told the same moment, and makes nobody wait longer', async () => {
  const asked = new Asked()
  await asked.fill('a')
  assert.equal(await asked.wait('a', alice), 1010)
  asked.nowMs = 5
  for (let n = 0; n < 100; n++) assert.equal(await asked.wait('a', alice), 1005)
  assert.equal(await asked.wait('a'), 1015)
  asked.nowMs = 1010
  assert.equal(await asked.wait('a', alice), 1000, 'its moment came, without a place')
})

test('nobody waits for longer than an hour, also not while very many do or the clock was ahead', async () => {
  const asked = new Asked()
  asked.nowMs = 86_400_000
  await asked.fill('a')
  assert.equal(await asked.wait('a', alice), 1010)
  asked.nowMs = 0
  assert.equal(await asked.wait('a', alice), 3_600_000)
})

test('any number of new hosts of one domain leave places for those of others, and do not make them wait', async () => {
  const asked = new Asked()
  const isAsked = async (host: string): Promise<boolean> => (await asked.fill(host)) > 0
  const hosts = [
    'a.evil.test',
    'https://b.evil.test:8443',
    'https://evil.test',
    'evil.test:1',
    'c.d.evil.test.',
  ]
  const filled: boolean[] = []
  for (const host of hosts) filled.push(await isAsked(host))
  assert.deepEqual(filled, [true, true, true, false, false])
  for (let n = 0; n < 100; n++) assert.ok((await asked.wait(`n${n}.evil.test`)) >= 1000)
  assert.equal(await asked.fill('a.other.test'), 2)
  assert.deepEqual([await asked.wait('a.third.test'), await asked.wait('a.fourth.test')], [1000, 1010])
  assert.ok((await asked.wait('more.evil.test')) > 1900, 'after the others of its domain')
})

test('any number of hosts that are new, or were slow, leave places for those that answer', async () => {
  const asked = new Asked()
  await asked.know('good')
  const filled: number[] = []
  for (const host of 'abcdefgh') filled.push(await asked.fill(host))
  assert.deepEqual(filled, [2, 2, 2, 2, 0, 0, 0, 0])
  assert.equal(await asked.wait('good'), 0)
  asked.nowMs += 10_000
  await asked.answerAll()
  assert.deepEqual([await asked.fill('a'), await asked.fill('e'), await asked.fill('good')], [2, 2, 6])
  asked.nowMs += 10_000
  await asked.answerAll()
  filled.length = 0
  for (const host of 'abcde') filled.push(await asked.fill(host))
  assert.deepEqual(filled, [2, 2, 2, 2, 0], 'those that were slow')
  assert.equal(await asked.fill('new'), 2)
})

test('a host has places by the quick answers that it gave, and a slow one costs half of them', async () => {
  const asked = new Asked()
  for (let n = 0; n < 3; n++) await asked.places.within('a', alice, async () => undefined)
  assert.equal(await asked.fill('a'), 6)
  await asked.answerAll()
  assert.equal(await asked.fill('a'), 8)
  await asked.answerAll()
  const slow = asked.places.within('a', alice, async () => void (asked.nowMs += 10_000))
  await slow
  assert.equal(await asked.fill('a'), 4)
})

test('documents of did:web have a share, and those of the directory need no place', async () => {
  const asked = new Asked()
  const never = new Promise<void>(() => undefined)
  const isRefused = async (account: string): Promise<boolean> => {
    const reading = asked.places.readDocument(account as Did, () => never) // of the right form
    const refused = reading.catch((error: unknown) => error)
    return (await Promise.race([refused, new Promise(setImmediate)])) instanceof NoPlaceError
  }
  for (let n = 0; n < 40; n++) assert.equal(await isRefused(`did:plc:${n}`), false)
  for (let n = 0; n < 6; n++) assert.equal(await isRefused(`did:web:${n}.evil.test%3A${n}`), false)
  assert.equal(await isRefused('did:web:evil.test'), true, 'of one domain')
  for (let n = 0; n < 2; n++) assert.equal(await isRefused(`did:web:${n}.other.test`), false)
  assert.equal(await isRefused('did:web:more.test'), true, 'of all')
  await asked.know('a')
  assert.equal(await asked.fill('a'), 4)
})
