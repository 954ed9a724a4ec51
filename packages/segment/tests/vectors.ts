import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { ParsedSegment, Row } from '../src/index.ts'

/** The path of a test vector. */
export function vectorPath(name: string): string {
  return fileURLToPath(new URL(`../vectors/${name}`, import.meta.url))
}

export function readVector(name: string): Uint8Array {
  return new Uint8Array(readFileSync(vectorPath(name)))
}

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the shape of our own file
export function readJsonVector<T>(name: string): T {
  return JSON.parse(readFileSync(vectorPath(name), 'utf8')) as T // Our own vectors; the caller names their shape.
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}

/** Rows as the `.expected.json` vectors show them. */
export function expectedRows(rows: readonly Row[]): unknown[] {
  return rows.map(({ payload, ...columns }) => ({ ...columns, payloadHex: hex(payload) }))
}

/** A whole segment as the `.expected.json` vectors show it. */
export function expectedSegment(segment: ParsedSegment): unknown {
  const { header } = segment
  const filters = segment.readBlockDidFilters()
  const showFilter = ({ shape, count }: ReturnType<typeof filters.at>): unknown => ({ ...shape, count })
  return {
    checksum: header.checksum,
    version: 1,
    blockCount: header.blockCount,
    eventCount: header.eventCount,
    uniqueDidCount: header.uniqueDidCount,
    minSeq: header.minSeq,
    maxSeq: header.maxSeq,
    minWitnessedAt: header.minWitnessedAt,
    maxWitnessedAt: header.maxWitnessedAt,
    footerOffset: header.footerOffset,
    blockIndexOffset: header.footerOffset,
    didBloomOffset: header.didFilterOffset,
    blockDidBloomOffset: header.blockDidFiltersOffset,
    collectionIndexOffset: header.collectionIndexOffset,
    segmentBloom: showFilter(segment.readDidFilter()),
    perBlockBloomSize: filters.filterBytes,
    perBlockBlooms: segment.blocks.map((_, i) => showFilter(filters.at(i))),
    collections: segment.collections.collections.map((collection, id) => ({ id, ...collection })),
    blocks: segment.blocks.map((entry, i) => ({
      ...entry,
      collectionIds: segment.collections.idsOfBlock(i),
      events: expectedRows(segment.readBlock(i).rows()),
    })),
  }
}
