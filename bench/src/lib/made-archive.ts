/** An archive of any size without a relay: rows with records of every collection, in blocks and segments as a stream writes them. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { encode } from '@atcute/cbor'
import { type Row, segmentName } from '@tributary/segment'
import { ActiveSegment } from '@tributary/segment/node'
import { randomFrom, sampleCollections, sampleRecord } from '@tributary/testkit'

const accounts = 2000
const firstMicros = 1_760_000_000_000_000
/** Microseconds between rows. */
const stepMicros = 1000
/** A stream seals at 256 MB of rows; these have about 400 bytes. */
const blocksPerSegment = 128
const blockRows = 4096
const vocabulary = 3000
const wordsPerText = 12
/** Where records are deleted: every tenth row deletes the record that was written so many rows before it. */
const rowsPerDelete = 10
const rowsToDelete = 5

/** Writes the segments of a stream's data directory. @param isDeleting whether a tenth of the rows deletes records. */
export async function makeArchive(directory: string, rows: number, isDeleting = false): Promise<void> {
  const segments = join(directory, 'segments')
  mkdirSync(segments, { recursive: true })
  const random = randomFrom(1)
  const letters = (length: number): string =>
    Array.from({ length }, () => (10 + random.below(26)).toString(36)).join('')
  const words = Array.from({ length: vocabulary }, () => letters(3 + random.below(8)))
  const text = (): string => Array.from({ length: wordsPerText }, () => random.pick(words)).join(' ')
  const rowsPerSegment = blocksPerSegment * blockRows
  const newest: Row[] = []
  const next = (seq: number): Row => {
    const row = rowOf(seq, text(), letters(6))
    if (isDeleting) {
      newest.push(row)
      const deleted = newest.length > rowsToDelete ? newest.shift() : undefined
      if (deleted && seq % rowsPerDelete === 0) return { ...row, ...deletion(deleted) }
    }
    return row
  }
  for (let first = 1; first <= rows; first += rowsPerSegment) {
    const path = join(segments, segmentName((first - 1) / rowsPerSegment))
    const active = await ActiveSegment.create(path)
    const end = Math.min(first + rowsPerSegment, rows + 1)
    for (let seq = first; seq < end; seq += blockRows) {
      const count = Math.min(blockRows, end - seq)
      await active.appendBlock(Array.from({ length: count }, (_, i) => next(seq + i)))
    }
    await active.seal()
    await active.close()
  }
}

function rowOf(seq: number, text: string, tail: string): Row {
  const collection = sampleCollections[seq % sampleCollections.length] ?? ''
  const createdAt = new Date((firstMicros + seq * stepMicros) / 1000).toISOString()
  return {
    seq,
    witnessedAt: firstMicros + seq * stepMicros,
    indexedAt: 0,
    kind: 1,
    collection,
    did: `did:plc:${((seq * 7919) % accounts).toString(36).padStart(24, 'a')}`.replaceAll(/[0189]/g, 'b'),
    rkey: `3l${seq.toString(36).padStart(5, '2')}${tail}`,
    rev: `3m${seq.toString(36).padStart(5, '2')}${tail}`,
    payload: encode({ $type: collection, ...sampleRecord(collection, { createdAt, title: text }) }),
  }
}

/** What a row says that deletes the record of another one. */
function deletion({
  did,
  collection,
  rkey,
}: Row): Pick<Row, 'kind' | 'did' | 'collection' | 'rkey' | 'payload'> {
  return { kind: 3, did, collection, rkey, payload: new Uint8Array(0) }
}
