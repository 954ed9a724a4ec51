import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CallerRate } from './caller-rate.ts'

test('an address may call thirty times in a minute, others in that minute too, and it may again in the next', () => {
  const rate = new CallerRate(30)
  const refused = { status: 429, error: 'RateLimitExceeded', headers: { 'Retry-After': '30' } }
  for (let call = 0; call < 30; call++) rate.take('192.0.2.1', 1000 * call)
  assert.throws(() => rate.take('192.0.2.1', 30_000), refused)
  rate.take('192.0.2.2', 30_000)
  rate.take('192.0.2.1', 60_000)
})

test('the addresses of one /64 are one caller', () => {
  const rate = new CallerRate(1)
  rate.take('2001:db8::1', 0)
  assert.throws(() => rate.take('2001:db8::2', 0), { status: 429 })
  rate.take('2001:db8:0:1::1', 0)
})

test('of too many callers only the first are forgotten, and let through', () => {
  const rate = new CallerRate(1)
  for (let caller = 0; caller <= 10_000; caller++) rate.take(`10.0.${caller >> 8}.${caller & 255}`, 0)
  assert.throws(() => rate.take('10.0.0.1', 0), { status: 429 })
  rate.take('10.0.0.0', 0)
  assert.throws(() => rate.take('10.0.0.0', 0), { status: 429 })
})
