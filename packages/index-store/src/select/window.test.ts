/** Pages of many accounts hold what the rules say, wherever a window ends. Runs on both databases. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Did, entryKinds, qualityLabels } from '@tributary/protocol'
import { newPostgresDatabase, type Random, randomFrom } from '@tributary/testkit'
import { did, limits, viewer } from '../../tests/filled-index.ts'
import { openIndexReader, openIndexWriter } from '../open-index.ts'
import type { EntriesTable, LabelsTable } from '../schema.ts'
import { windowOfPostgres } from '../postgres/postgres-reader.ts'
import { windowOfSqlite } from '../sqlite/sqlite-reader.ts'
import type { QualityRule, Selection } from './selection.ts'
import type { WindowBounds } from './window.ts'

/** Another one each time; the name of the test tells it. Put it here to play it again. */
const seed = Date.now() % 2 ** 32
const pages = 400
const now = 1000n
const labeler = did('labeler')
const evaluators = [did('first'), did('second')]
const authors = [viewer, ...Array.from({ length: 40 }, (_, index) => did(index))]

const always = { accountsMin: 0, lookUpsPerAccount: 1000 }

/** Windows that end after the first entry, within the entries, and beyond them; one that no scope here is taken to. */
const windows: readonly WindowBounds[] = [
  { ...always, lookUpsMax: 1, lookUpsPerStepMax: 1 },
  { ...always, lookUpsMax: 9, lookUpsPerStepMax: 3 },
  { ...always, lookUpsMax: 300, lookUpsPerStepMax: 20 },
  { ...always, lookUpsPerAccount: 1, lookUpsMax: 300, lookUpsPerStepMax: 20 },
  { ...windowOfPostgres, accountsMin: 10 },
  windowOfPostgres,
  windowOfSqlite,
]

interface Relation {
  uri: string
  from: Did
  subject: Did
}

interface Rows {
  follows: Relation[]
  endorsements: Relation[]
  entries: EntriesTable[]
  organizations: Did[]
  labels: LabelsTable[]
}

test(`pages of any window are those of a plain evaluation (seed ${seed})`, async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'window-'))
  const place = (await newPostgresDatabase()) ?? join(directory.path, 'index.sqlite')
  const random = randomFrom(seed)
  const rows = randomRows(random)
  await write(place, rows)
  for (const window of windows) {
    await using reader = openIndexReader(place, { window })
    for (let page = 0; page < pages / windows.length; page++) {
      const selection = randomSelection(random, rows)
      const entries = await reader.snapshot(limits, (view) => view.entries(selection))
      const told = JSON.stringify({ window, selection }, (_, value: unknown) =>
        typeof value === 'bigint' ? String(value) : value,
      )
      assert.deepEqual(
        entries.map(({ uri }) => uri),
        expected(rows, selection),
        told,
      )
    }
  }
})

/**
 * Some accounts write much more than others, and many entries have the same time. The viewer is always followed and
 * endorsed, too, and must not be shown all the same.
 */
function randomRows(random: Random): Rows {
  const some = (of: Did, table: string, share: number): Relation[] =>
    authors
      .filter((author) => author === viewer || random.next() < share)
      .map((subject, at) => ({ uri: `at://${of}/${table}/${at}`, from: of, subject }))
  const organizations = authors.filter(() => random.below(2) === 0)
  return {
    follows: some(viewer, 'follow', 0.5),
    endorsements: evaluators.flatMap((evaluator) => some(evaluator, 'award', 0.2)),
    entries: Array.from({ length: 300 }, (_, at) => {
      const author = authors[Math.floor(authors.length * random.next() ** 2)] ?? viewer
      const feedTime = BigInt(random.below(120))
      return { uri: `at://${author}/a.b.c/${at}`, did: author, kind: random.pick(entryKinds), feedTime }
    }),
    organizations,
    labels: organizations.flatMap((subject) =>
      Array.from({ length: random.below(3) }, (_, cts): LabelsTable => ({
        src: labeler,
        did: subject,
        uri: subject,
        cid: null,
        val: random.pick(qualityLabels),
        neg: random.below(3) === 0 ? 1n : 0n,
        cts: BigInt(cts),
        exp: random.below(3) === 0 ? now : null,
      })),
    ),
  }
}

async function write(place: string, rows: Rows): Promise<void> {
  await using writer = await openIndexWriter(place)
  await writer.write(async (batch) => {
    await batch.put(
      'follows',
      rows.follows.map(({ uri, from, subject }) => ({ uri, viewer: from, subject })),
    )
    await batch.put(
      'endorsements',
      rows.endorsements.map(({ uri, from, subject }) => ({ uri, issuer: from, subject })),
    )
    await batch.put('entries', rows.entries)
    await batch.put(
      'organizations',
      rows.organizations.map((organization) => ({ did: organization })),
    )
    await batch.put('labels', rows.labels)
  })
}

function randomSelection(random: Random, { entries }: Rows): Selection {
  const kinds = random.pick([undefined, 1, 4])
  const quality = random.pick([undefined, true, false])
  return {
    viewer,
    evaluators: evaluators.filter(() => random.below(2) === 0),
    labelers: [labeler],
    limit: 1 + random.below(random.pick([3, 60])),
    now,
    ...(kinds && { kinds: Array.from({ length: kinds }, () => random.pick(entryKinds)) }),
    ...(quality !== undefined && { quality: { allowed: ['standard', 'draft'], includeUnrated: quality } }),
    ...(random.below(3) > 0 && { after: random.pick(entries) }),
  }
}

/** The rules of a page, line by line (feed.md sections 4, 6 and 7). */
function expected(rows: Rows, selection: Selection): string[] {
  const { kinds, quality, after, limit } = selection
  const scope = new Set([
    ...rows.follows.map(({ subject }) => subject),
    ...rows.endorsements
      .filter(({ from }) => selection.evaluators.includes(from))
      .map(({ subject }) => subject),
  ])
  return rows.entries
    .filter((entry) => entry.did !== viewer && scope.has(entry.did))
    .filter(({ kind }) => kinds === undefined || kinds.includes(kind))
    .filter((entry) => quality === undefined || isOfQuality(rows, entry.did, quality))
    .filter((entry) => after === undefined || isNewer(after, entry))
    .toSorted((a, b) => (isNewer(a, b) ? -1 : 1))
    .slice(0, limit)
    .map(({ uri }) => uri)
}

function isNewer(
  a: Pick<EntriesTable, 'feedTime' | 'uri'>,
  b: Pick<EntriesTable, 'feedTime' | 'uri'>,
): boolean {
  return a.feedTime === b.feedTime ? a.uri > b.uri : a.feedTime > b.feedTime
}

function isOfQuality(
  { organizations, labels }: Rows,
  account: Did,
  { allowed, includeUnrated }: QualityRule,
): boolean {
  if (!organizations.includes(account)) return true
  const current = labels.filter((label) => label.did === account && (label.exp === null || label.exp > now))
  const negations = current.filter(({ neg }) => neg === 1n)
  const active = current.filter(
    (label) => label.neg === 0n && !negations.some(({ val, cts }) => val === label.val && cts >= label.cts),
  )
  return active.length === 0 ? includeUnrated : active.some(({ val }) => allowed.includes(val))
}
