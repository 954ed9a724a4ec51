import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { formatDatetime, parseDatetime } from './datetime.ts'

test('a moment reads the same in every offset and keeps microseconds', () => {
  assert.equal(parseDatetime('1970-01-01T00:00:00Z'), 0n)
  assert.equal(parseDatetime('2026-07-22T11:00:00+00:00'), parseDatetime('2026-07-22T13:00:00+02:00'))
  assert.equal(parseDatetime('2026-07-22T11:00:00Z'), parseDatetime('2026-07-22T05:30:00-05:30'))
  assert.equal(parseDatetime('1970-01-01T00:00:00.000001Z'), 1n)
  assert.equal(parseDatetime('1969-12-31T23:59:59.999999Z'), -1n)
  assert.equal(parseDatetime('1970-01-01T00:00:00.5Z'), 500_000n)
})

test('digits beyond microseconds are rounded, also into the next second', () => {
  assert.equal(parseDatetime('1970-01-01T00:00:00.0000014999Z'), 1n)
  assert.equal(parseDatetime('1970-01-01T00:00:00.0000015Z'), 2n)
  assert.equal(parseDatetime('1970-01-01T00:00:00.9999999Z'), 1_000_000n)
})

test('what is not a moment of that form is refused', () => {
  const faults = [
    '2026-07-22',
    '2026-07-22T11:00:00',
    '2026-07-22T11:00Z',
    '2026-07-22t11:00:00Z',
    '2026-07-22T11:00:00z',
    '2026-07-22 11:00:00Z',
    '2026-07-22T24:00:00Z',
    '2026-07-22T23:60:00Z',
    '2026-07-22T23:59:60Z',
    '2026-02-30T11:00:00Z',
    '2025-02-29T11:00:00Z',
    '2026-00-10T11:00:00Z',
    '2026-13-10T11:00:00Z',
    '2026-07-00T11:00:00Z',
    '2026-07-22T11:00:00+24:00',
    '2026-07-22T11:00:00+0200',
    '2026-07-22T11:00:00.Z',
    '12026-07-22T11:00:00Z',
    '0000-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '9999-12-31T23:59:59.9999999Z',
    `2026-07-22T11:00:00.${'0'.repeat(200)}Z`,
    ' 2026-07-22T11:00:00Z',
    '2026-07-22T11:00:00Z\n',
    '',
    20260722,
    null,
    undefined,
    { toString: () => '2026-07-22T11:00:00Z' },
  ]
  for (const fault of faults) assert.equal(parseDatetime(fault), undefined, JSON.stringify(fault))
})

test('leap days, the first and the last moment are real', () => {
  assert.notEqual(parseDatetime('2024-02-29T00:00:00Z'), undefined)
  assert.equal(formatDatetime(parseDatetime('0000-01-01T00:00:00Z') ?? 0n), '0000-01-01T00:00:00.000000Z')
  assert.equal(formatDatetime(parseDatetime('0099-03-01T00:00:00Z') ?? 0n), '0099-03-01T00:00:00.000000Z')
  assert.equal(
    formatDatetime(parseDatetime('9999-12-31T23:59:59.999999Z') ?? 0n),
    '9999-12-31T23:59:59.999999Z',
  )
})

test('every moment survives being written and read, and text order is time order', () => {
  const moment = fc.bigInt({ min: -62_167_219_200_000_000n, max: 253_402_300_799_999_999n })
  fc.assert(
    fc.property(moment, moment, (a, b) => {
      assert.equal(parseDatetime(formatDatetime(a)), a)
      assert.equal(formatDatetime(a) < formatDatetime(b), a < b)
    }),
  )
})
