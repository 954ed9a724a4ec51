/** Readers that each have a filter of their own: the filters, and what of a load they let through. */
import { randomBytes } from 'node:crypto'
import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { watchedCollections } from '@tributary/protocol'
import { randomFrom, type LoadInfo, type Random } from '@tributary/testkit'
import type { Bench } from './bench.ts'
import { firstOf, type ShownEvent } from './watched-events.ts'

/** DIDs of one filter. */
const didsPerFilter = 1000
const base32 = 'abcdefghijklmnopqrstuvwxyz234567'

export interface ReaderFilters {
  /** As a line of a report has it. */
  name: string
  by: 'dids' | 'collections'
  /** What the filter of a reader names; each reader is asked for once. */
  valuesOf: (reader: number, random: Random) => readonly string[]
  /** Further parameters of every reader. */
  rest?: string
}

/** Half of the watched collections, other ones for each reader. */
export const halfOfCollections: ReaderFilters = {
  name: 'half of the collections',
  by: 'collections',
  valuesOf: (_, random) => someOf(watchedCollections, Math.ceil(watchedCollections.length / 2), random),
}

/** Half of the accounts, other ones for each reader, and accounts that write nothing up to a thousand. */
export function halfOfAccounts({ accounts }: LoadInfo): ReaderFilters {
  const dids = accounts.map(({ did }) => did)
  const half = Math.min(Math.floor(dids.length / 2), didsPerFilter)
  return {
    name: `${didsPerFilter} DIDs, which write half`,
    by: 'dids',
    valuesOf: (_, random) => [...someOf(dids, half, random), ...strangers(didsPerFilter - half)],
  }
}

export const noCollection: ReaderFilters = {
  name: 'commits of a collection that nobody writes',
  by: 'collections',
  rest: 'kinds=commit',
  valuesOf: (reader) => [`org.example.nothing.r${reader}`],
}

export const noAccounts: ReaderFilters = {
  name: `${didsPerFilter} DIDs that write nothing`,
  by: 'dids',
  valuesOf: () => strangers(didsPerFilter),
}

/** Accounts that nobody has. */
function strangers(count: number): string[] {
  const letters = randomBytes(24 * count)
  return Array.from({ length: count }, (_, i) => {
    let did = 'did:plc:'
    for (let at = 24 * i; at < 24 * (i + 1); at++) did += base32[(letters[at] ?? 0) % 32]
    return did
  })
}

/** As many of the values, each at most once. */
function someOf(values: readonly string[], count: number, random: Random): string[] {
  const left = [...values]
  return Array.from({ length: count }, (_, i) => {
    const at = i + random.below(left.length - i)
    const value = left[at] ?? ''
    left[at] = left[i] ?? ''
    return value
  })
}

interface FilteredReaders {
  /** A line for each reader. */
  queriesFile: string
  /** How many of these events the readers get together. */
  wanted: (events: readonly ShownEvent[], fromCommit: number, toCommit: number) => number
}

/** Writes the filters of readers into a file: five million DIDs are 200 MB. */
export function writeFilters(bench: Bench, filters: ReaderFilters, readers: number): FilteredReaders {
  const queriesFile = join(bench.newDirectory('filters'), 'queries')
  const file = openSync(queriesFile, 'w')
  const random = randomFrom(readers)
  /** How many readers name a value. */
  const named = new Map<string, number>()
  const isAnybodyServed = filters !== noAccounts
  for (let reader = 0; reader < readers; reader++) {
    const values = filters.valuesOf(reader, random)
    if (isAnybodyServed) for (const value of values) named.set(value, (named.get(value) ?? 0) + 1)
    const query = values.map((value) => `${filters.by}=${value}`)
    if (filters.rest !== undefined) query.push(filters.rest)
    writeSync(file, `${query.join('&')}\n`)
  }
  closeSync(file)
  const wanted: FilteredReaders['wanted'] = (events, fromCommit, toCommit) => {
    let count = 0
    for (const { did, collection } of events.slice(firstOf(events, fromCommit), firstOf(events, toCommit)))
      count += named.get(filters.by === 'dids' ? did : collection) ?? 0
    return count
  }
  return { queriesFile, wanted }
}
