import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import {
  isAtUri,
  isDatetime,
  isDid,
  isHandle,
  isNsid,
  isRecordKey,
  isTid,
  microsecondsToTid,
  parseRecordUri,
  tidToMicroseconds,
} from './index.ts'

const folder = new URL('../vectors/syntax/', import.meta.url)
const checks: Record<string, (value: unknown) => boolean> = {
  aturi: isAtUri,
  datetime: isDatetime,
  did: isDid,
  handle: isHandle,
  nsid: isNsid,
  recordkey: isRecordKey,
  tid: isTid,
}

for (const [name, check] of Object.entries(checks)) {
  for (const verdict of ['valid', 'invalid']) {
    const file = readdirSync(folder).find((entry) => entry === `${name}_syntax_${verdict}.txt`)
    test(`${name}: every ${verdict} interop case is judged so`, () => {
      assert.ok(file)
      const cases = readFileSync(new URL(file, folder), 'utf8')
        .split('\n')
        .filter((line) => line.trim() !== '' && !line.startsWith('#'))
      assert.ok(cases.length > 3)
      const wrong = cases.filter((text) => check(text) !== (verdict === 'valid'))
      assert.deepEqual(wrong, [])
    })
  }
}

test('a datetime lies within the years 0 to 9999 of UTC', () => {
  for (const time of ['0000-01-01T00:30:00+01:00', '9999-12-31T23:30:00-01:00']) assert.ok(!isDatetime(time))
  for (const time of ['0000-01-01T00:30:00-01:00', '9999-12-31T23:30:00.9999+01:00'])
    assert.ok(isDatetime(time))
})

test('a TID and its microseconds convert both ways', () => {
  const micros = 1_750_000_000_123_456
  assert.equal(tidToMicroseconds(microsecondsToTid(micros, 7)), micros)
  assert.ok(isTid(microsecondsToTid(micros, 1023)))
  assert.ok(microsecondsToTid(micros, 0) < microsecondsToTid(micros + 1, 0))
})

test('only the address of one record parses', () => {
  assert.deepEqual(parseRecordUri('at://did:plc:abc/org.impact.collection/3k'), {
    did: 'did:plc:abc',
    collection: 'org.impact.collection',
    rkey: '3k',
  })
  for (const bad of [
    'at://did:plc:abc',
    'at://did:plc:abc/org.impact.collection',
    'at://alice.test/a.b.c/d',
    'at://did:plc:abc/a.b.c/d/e',
    5,
  ]) {
    assert.equal(parseRecordUri(bad), undefined)
  }
})
