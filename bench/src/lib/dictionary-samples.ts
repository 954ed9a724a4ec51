/**
 * node tools/run.mjs bench/src/lib/dictionary-samples.ts DIRECTORY: writes the messages that the dictionary of the live stream is
 * trained on, one a file. They are the messages of made events: every record that the lexicons' vectors have, with other
 * names, links, times and texts each time, so that a dictionary learns what stays the same. The same seed gives the same
 * messages. packages/zstd-dictionary/README.md says what is done with them.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { rowText } from '@tributary/stream/render'
import {
  blockOf,
  type Random,
  randomFrom,
  recordVectors,
  sampleCollections,
  sampleRkey,
} from '@tributary/testkit'

const base32 = 'abcdefghijklmnopqrstuvwxyz234567'
const tidDigits = '234567abcdefghijklmnopqrstuvwxyz'
/** Words that texts are made of: common ones, which texts of people have too. */
const words =
  `the of and to in is for that with on as are this by from be at or we our an it was has have will not can more
  all their which new they been one were also year years people project community work local support water forest land
  river trees planted season school health care women children families farmers training data open source software
  network energy solar carbon climate soil restoration biodiversity species area hectares village city region country
  research report results measured verified evaluation evidence contribution contributors funding grant donation
  received impact activity activities between during after before first second about these other than many most some
  through over under each using used made group members volunteers organization team partners program since every day
  month number total increase reduction improved access education development sustainable management monitoring
  knowledge public goods`.split(/\s+/)

/** What is trained on, and what the result is measured by, have different seeds. */
export function* sampleMessages(count: number, seed: number): Generator<string> {
  const random = randomFrom(seed)
  const records = sampleCollections.flatMap((collection) =>
    recordVectors(collection).valid.map((record) => ({ collection, record })),
  )
  for (let seq = 1; seq <= count; seq++) yield sampleMessage(seq, random.pick(records), random)
}

function sampleMessage(
  seq: number,
  { collection, record }: { collection: string; record: unknown },
  random: Random,
): string {
  const now = 1_770_000_000_000_000 + random.below(40_000_000) * 1_000_000 + random.below(1_000_000)
  const kind = random.below(100)
  const did = `did:plc:${letters(base32, 24, random)}`
  const row = {
    seq: 1 + random.below(10 ** (3 + random.below(6))),
    witnessedAt: now,
    indexedAt: 0,
    did,
    rev: `3${letters(tidDigits, 12, random)}`,
    collection: '',
    rkey: '',
  }
  const relay = { did, seq: row.seq, time: new Date(now / 1000).toISOString() }
  if (kind < 2)
    return rowText({
      ...row,
      kind: 4,
      payload: blockOf({ ...relay, handle: `${random.pick(words)}.example.org` }).bytes,
    })
  if (kind < 4) return rowText({ ...row, kind: 5, payload: blockOf({ ...relay, active: true }).bytes })
  const rkey = sampleRkey(collection) ?? `3${letters(tidDigits, 12, random)}`
  const commit = { ...row, collection, rkey }
  if (kind < 12) return rowText({ ...commit, kind: 3, payload: new Uint8Array(0) })
  const varied = vary(record, random)
  const message = rowText({ ...commit, kind: kind < 20 ? 2 : 1, payload: blockOf({ seq }).bytes })
  const text = message.replace(/"record":.*/, () => `"record":${JSON.stringify(varied)}}}`)
  // Readers of Jetstream v2 get the name of their method.
  return kind % 8 === 0 ? text.replace('network.social.stream', 'network.bsky.jetstream') : text
}

/** The same record with other contents. Keys come in the order in which the stream shows them. */
function vary(value: unknown, random: Random, key = ''): unknown {
  if (Array.isArray(value)) return value.map((each) => vary(each, random, key))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value)
        .toSorted(([left], [right]) => left.length - right.length || (left < right ? -1 : 1))
        .map(([name, each]) => [name, vary(each, random, name)]),
    )
  if (typeof value === 'number') return random.below(10 * value + 10)
  return typeof value === 'string' && !key.startsWith('$type') ? varyText(value, random) : value
}

function varyText(text: string, random: Random): string {
  const changed = text
    .replaceAll(/did:plc:[a-z2-7]+/g, () => `did:plc:${letters(base32, 24, random)}`)
    .replaceAll(/\b(baf[a-z]{4})[a-z2-7]{52}/g, (_, head: string) => head + letters(base32, 52, random))
    .replaceAll(/\/[2-7a-z]{13}$/g, () => `/3${letters(tidDigits, 12, random)}`)
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, () =>
      new Date(1_770_000_000_000 + random.below(40_000_000_000)).toISOString(),
    )
  if (changed !== text || !/ /.test(text)) return changed
  const length = 3 + random.below(40)
  return Array.from({ length }, () => random.pick(words)).join(' ')
}

function letters(alphabet: string, length: number, random: Random): string {
  return Array.from({ length }, () => alphabet[random.below(alphabet.length)]).join('')
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const directory = process.argv[2]
  if (directory === undefined) throw new Error('name a directory for the samples')
  mkdirSync(directory, { recursive: true })
  let n = 0
  for (const message of sampleMessages(20_000, 1)) writeFileSync(join(directory, `${n++}.json`), message)
}
