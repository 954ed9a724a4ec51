import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { Checkpoint, type CursorStore } from './checkpoint.ts'
import { FileCursorStore } from './file-cursor-store.ts'

/** Keeps every save, in memory. */
class SaveLog implements CursorStore {
  readonly saves: number[] = []
  failure: Error | undefined
  readonly #start: number | undefined

  constructor(start?: number) {
    this.#start = start
  }

  async load(): Promise<number | undefined> {
    return this.#start
  }

  async save(cursor: number): Promise<void> {
    if (this.failure) throw this.failure
    this.saves.push(cursor)
  }
}

test('only the contiguous acknowledged prefix is saved', async () => {
  const store = new SaveLog(10)
  const checkpoint = await Checkpoint.open(store)
  const [first, second, third] = await Promise.all([11, 15, 20].map((cursor) => checkpoint.track(cursor)))
  third?.()
  second?.()
  await checkpoint.flush()
  assert.deepEqual(store.saves, [])
  assert.equal(checkpoint.cursor, 10)
  first?.()
  await checkpoint.flush()
  assert.deepEqual(store.saves.at(-1), 20)
})

test('whatever the order of acknowledgements, saved cursors rise and never pass work that is not done', async () => {
  const cursors = fc.uniqueArray(fc.integer({ min: 1, max: 1000 }), { minLength: 1, maxLength: 20 })
  await fc.assert(
    fc.asyncProperty(cursors, fc.infiniteStream(fc.nat()), fc.nat(20), async (unsorted, order, undone) => {
      const sorted = unsorted.toSorted((a, b) => a - b)
      const store = new SaveLog()
      const checkpoint = await Checkpoint.open(store)
      const work = []
      for (const cursor of sorted) work.push({ cursor, done: await checkpoint.track(cursor) })
      const left = [...work]
      for (let i = Math.max(0, work.length - undone); i > 0; i--) {
        const [picked] = left.splice((order.next().value ?? 0) % left.length, 1)
        picked?.done()
        await checkpoint.flush()
      }
      const firstUndone = Math.min(...left.map(({ cursor }) => cursor), Infinity)
      assert.ok(store.saves.every((saved) => saved < firstUndone))
      assert.deepEqual(
        store.saves,
        store.saves.toSorted((a, b) => a - b),
      )
      const expected = sorted.findLast((cursor) => cursor < firstUndone)
      assert.equal(store.saves.at(-1), expected)
    }),
  )
})

test('a run that acknowledges nothing saves nothing', async () => {
  const store = new SaveLog(500)
  const checkpoint = await Checkpoint.open(store)
  await checkpoint.track(501)
  await checkpoint.flush()
  assert.deepEqual(store.saves, [])
})

test('too much work under way makes tracking wait, and a failed save comes out', async () => {
  const store = new SaveLog()
  const checkpoint = await Checkpoint.open(store, { pendingMax: 1 })
  const done = await checkpoint.track(1)
  let isTracked = false
  const second = checkpoint.track(2).then((acknowledge) => {
    isTracked = true
    return acknowledge
  })
  await checkpoint.flush()
  assert.equal(isTracked, false)
  done()
  const acknowledge = await second
  store.failure = new Error('disk full')
  acknowledge()
  await assert.rejects(checkpoint.flush(), /disk full/)
  await assert.rejects(checkpoint.track(3), /disk full/)
})

test('a cursor file survives, belongs to one server, and is replaced as a whole', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'cursor-'))
  try {
    const path = join(directory, 'cursor')
    const store = new FileCursorStore(path, 'https://stream.example')
    assert.equal(await store.load(), undefined)
    await store.save(41)
    await store.save(42)
    assert.equal(await store.load(), 42)
    assert.deepEqual(await readdir(directory), ['cursor'])
    assert.match(await readFile(path, 'utf8'), /stream\.example/)
    await assert.rejects(
      new FileCursorStore(path, 'https://other.example').load(),
      /holds a cursor of https:\/\/stream/,
    )
    for (const damaged of ['', '{}', '{"cursor":-1,"server":"x"}', '{"cursor":"5"']) {
      await writeFile(path, damaged)
      await assert.rejects(store.load(), { name: 'CursorStoreError' })
    }
  } finally {
    await rm(directory, { recursive: true })
  }
})
