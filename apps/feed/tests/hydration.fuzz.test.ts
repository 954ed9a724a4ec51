import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Did, entryKinds, recordUri } from '@tributary/protocol'
import { jsonStringToLex } from '@atproto/lexicon'
import { createRecordViews } from '@tributary/record-view'
import { loadLexicons } from '@tributary/xrpc'
import { collectionOf, largeImage, recordOf, smallBlob, smallImage, uriImage } from './sample.ts'
import { hydrate } from '../src/hydrate/items.ts'

const lexicons = loadLexicons()
const nobody = { actors: async () => new Map() }
const views = createRecordViews(lexicons)
const author = 'did:plc:alice' as Did // DID syntax

/** Values that records hold, good and bad, and anything else that JSON can say. */
const values = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom<unknown>(
    smallImage(),
    largeImage(),
    smallBlob(),
    uriImage(),
    [smallBlob(), { $type: 'a#b#c' }],
    { $type: 'constructor' },
    { $type: 'blob', ref: { $link: 'x' }, mimeType: 'image/png', size: 1 },
    { cid: 'x', mimeType: 'image/png' },
    { $link: 'bafkreift5ympvzivnjvvkjx3stgiwwvwbioqgylc4jfg7fddgerfthwfim' },
    { $bytes: '!' },
    '2026-03-04T05:06:07Z',
  ),
)
const fields = fc.constantFrom(
  '$type',
  'title',
  'shortDescription',
  'image',
  'avatar',
  'banner',
  'items',
  'locations',
  'content',
  'subject',
  'subjects',
  'config',
  'contributorConfigs',
  'createdAt',
  'startDate',
  'type',
  'summary',
  'metric',
  '__proto__',
)

test('no record makes a page fail, or leave its lexicon', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...entryKinds), fields, values, async (kind, field, value) => {
      const collection = collectionOf[kind]
      const uri = recordUri(author, collection, '3key')
      const record: unknown = JSON.parse(JSON.stringify(recordOf(kind, { [field]: value })))
      const view = views.of(collection, record) ?? null
      const feed = await hydrate([{ uri, did: author, kind, feedTime: 0n, view }], nobody)
      assert.ok(feed.length <= 1)
      const items = feed.map((text) => jsonStringToLex(text))
      lexicons.assertValidXrpcOutput('org.impact.feed.getFeed', { feed: items })
    }),
    { numRuns: 3000 },
  )
})
