import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pagesOf, rowsOf, type ListOptions } from './answer-lists.ts'
import { NoAnswerError } from './call-service.ts'

const base = 'http://127.0.0.1:1'
const notOurs = (error: unknown): boolean =>
  error instanceof NoAnswerError && error.message.endsWith("is it the service's address?")

/** Reads a list to its end. */
async function read(
  answer: (cursor: string | undefined) => unknown,
  options?: ListOptions,
): Promise<{ asked: number; end: unknown; rows: number }> {
  const read = { asked: 0, end: undefined as unknown, rows: 0 }
  const ask = async (cursor: string | undefined): Promise<unknown> => {
    read.asked++
    return answer(cursor)
  }
  try {
    for await (const page of pagesOf(base, 'hosts', ask, options)) read.rows += page.length
  } catch (error) {
    read.end = error
  }
  return read
}

test('a list is read to its last page', async () => {
  const pages = (cursor = '0'): unknown => {
    const at = Number(cursor)
    return { hosts: [{ at }], ...(at < 5 && { cursor: String(at + 1) }) }
  }
  assert.deepEqual(await read(pages), { asked: 6, end: undefined, rows: 6 })
  for (const cursor of ['', null])
    assert.deepEqual(await read(() => ({ hosts: [], cursor })), { asked: 1, end: undefined, rows: 0 })
})

test('a list that does not go on, or never ends, is none of a service', async () => {
  const all: [number, (cursor: string | undefined) => unknown, ListOptions?][] = [
    [1, () => ({ hosts: [], cursor: 'next' })],
    [2, () => ({ hosts: [{}], cursor: 'again' })],
    [3, (cursor) => ({ hosts: [{}], cursor: cursor === 'a' ? 'b' : 'a' })],
    [100, (cursor = '') => ({ hosts: [{}], cursor: `${cursor}x` })],
    [7, (cursor = '') => ({ hosts: [], cursor: `${cursor}x` }), { pagesMax: 7, mayBeEmpty: true }],
    [1, () => ({ hosts: [{}], cursor: { a: 1 } })],
  ]
  for (const [asked, answer, options] of all) {
    const list = await read(answer, options)
    assert.equal(list.asked, asked)
    assert.ok(notOurs(list.end), String(list.end))
  }
})

test('rows of another form are none of a service', () => {
  const kinds = { name: 'string', size: 'number', places: 'array', view: 'object' } as const
  const row = { name: 'a', size: 1, places: [], view: {} }
  assert.deepEqual(rowsOf(base, { rows: [{ ...row, more: null }] }, 'rows', kinds), [{ ...row, more: null }])
  const bad = [null, {}, 5, [], { ...row, name: 5 }, { ...row, size: null }, { ...row, view: [] }]
  for (const rows of [...bad.map((each) => [row, each]), 5, null, {}, 'rows'])
    assert.throws(() => rowsOf(base, { rows }, 'rows', kinds), notOurs)
  for (const answer of [null, 5, [], 'rows', {}])
    assert.throws(() => rowsOf(base, answer, 'rows', kinds), notOurs)
})
