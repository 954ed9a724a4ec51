import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { caseCount } from './case.ts'

test('every case of the feed specification is played by its number, once', () => {
  const files = readdirSync(import.meta.dirname).filter((name) => name.endsWith('.test.ts'))
  const numbers = files.flatMap((name) => {
    const text = readFileSync(join(import.meta.dirname, name), 'utf8')
    return [...text.matchAll(/^ *(?:conformance\(|\[)\s*(\d+), *(?:\n|')/gm)].map(([, number]) =>
      Number(number),
    )
  })
  // Statuses stand in lists, too.
  const cases = numbers.filter((number) => number <= caseCount)
  const all = Array.from({ length: caseCount }, (_, index) => index + 1)
  assert.deepEqual(
    cases.toSorted((a, b) => a - b),
    all,
  )
})
