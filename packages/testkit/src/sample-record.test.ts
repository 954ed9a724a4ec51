import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'
import { Lexicons, jsonToLex } from '@atproto/lexicon'
import { freeTextFields, recordVectors, sampleCollections, sampleRecord, sampleRkey } from './index.ts'

const folder = fileURLToPath(new URL('../../../lexicons', import.meta.url))
const documents = globSync('**/*.json', { cwd: folder }).map(
  (path) =>
    JSON.parse(readFileSync(`${folder}/${path}`, 'utf8')) as { id: string; lexicon: 1; defs: Definitions }, // reason: lexicon files; Lexicons checks them.
)
type Definitions = Record<string, { type: string; key?: string }>
const lexicons = new Lexicons(documents as never) // reason: as above.

function isValid(collection: string, record: unknown): boolean {
  return lexicons.validate(collection, jsonToLex(record)).success
}

for (const collection of sampleCollections) {
  test(`a sample of ${collection} is valid, with the longest text too`, () => {
    assert.ok(isValid(collection, sampleRecord(collection)))
    const free = freeTextFields[collection]
    if (free !== undefined) {
      const full = sampleRecord(collection, { [free.field]: 'x'.repeat(free.charsMax) })
      assert.ok(isValid(collection, full))
    }
    const { valid, invalid } = recordVectors(collection)
    assert.ok(valid.every((record) => isValid(collection, record)))
    assert.ok(invalid.every(({ record }) => !isValid(collection, record)))
    const key = documents.find(({ id }) => id === collection)?.defs['main']?.key
    assert.equal(sampleRkey(collection), key === 'literal:self' ? 'self' : undefined)
  })
}
