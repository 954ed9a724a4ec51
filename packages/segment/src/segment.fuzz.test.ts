import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { anyRows, sealBlocks } from '../tests/rows.ts'
import { readVector } from '../tests/vectors.ts'
import { auditSegment } from './audit-segment.ts'
import { decodeBlock } from './block-view.ts'
import { encodeBlockBody } from './encode-block.ts'
import { SegmentError } from './errors.ts'
import { segmentChecksum } from './header.ts'
import { nodeDecompress } from './node-zstd.ts'
import { parseSegment } from './parsed-segment.ts'
import { decodeFrame } from './stored-block.ts'

// A failure prints its seed and path; pass them here to run it again: fc.assert(…, { ...fuzz, seed, path }).
const fuzz = { numRuns: 300 }

const sealedFiles = [
  'segment/golden_seal.bin',
  'corpus/golden_corpus_segment.jss',
  'derived/synthetic_all_kinds.jss',
  'derived/synthetic_compacted.jss',
  'derived/synthetic_empty.jss',
].map((file) => readVector(file))

/** Runs a reader on bytes from anywhere: it may refuse them, and only in the way it promises. */
function mayRefuse<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof SegmentError) return undefined
    throw error
  }
}

function readEverything(bytes: Uint8Array): void {
  const segment = mayRefuse(() => parseSegment(bytes, nodeDecompress))
  if (!segment) return
  mayRefuse(() => segment.readDidFilter())
  const filters = mayRefuse(() => segment.readBlockDidFilters())
  segment.blocks.forEach((_, i) => {
    mayRefuse(() => filters?.at(i))
    segment.collections.idsOfBlock(i)
    mayRefuse(() => segment.readBlock(i).rows())
  })
}

/** Some bytes replaced, some cut or inserted. */
const damage = fc.array(
  fc.oneof(
    fc.record({ at: fc.nat(), bytes: fc.uint8Array({ minLength: 1, maxLength: 8 }) }),
    fc.record({ at: fc.nat(), cut: fc.nat({ max: 16 }) }),
  ),
  { minLength: 1, maxLength: 4 },
)

function damaged(bytes: Uint8Array, changes: { at: number; bytes?: Uint8Array; cut?: number }[]): Uint8Array {
  const result = [...bytes]
  for (const { at, bytes: put, cut } of changes) {
    result.splice(at % (result.length + 1), cut ?? put?.length ?? 0, ...(put ?? []))
  }
  return Uint8Array.from(result)
}

/** Gives a file the checksum that it needs for a reader to look further. */
function withChecksum(bytes: Uint8Array): Uint8Array {
  if (bytes.length < 256) return bytes
  const view = new DataView(bytes.buffer)
  const footer = bytes.subarray(Math.min(Number(view.getBigUint64(58, true)), bytes.length))
  view.setBigUint64(4, BigInt(`0x${segmentChecksum(bytes, footer)}`), true)
  return bytes
}

test('any rows come back as they were, and their body encodes again to the same bytes', () => {
  fc.assert(
    fc.property(anyRows, (rows) => {
      const body = encodeBlockBody(rows)
      const block = decodeBlock(body)
      assert.deepEqual(block.rows(), rows)
      assert.deepEqual(encodeBlockBody(block.rows()), body)
    }),
    fuzz,
  )
})

test('any rows can be sealed, read back and audited', async () => {
  await fc.assert(
    fc.asyncProperty(anyRows, fc.nat({ max: 40 }), async (rows, cut) => {
      const blocks = [rows.slice(0, cut), rows.slice(cut)].filter((block) => block.length > 0)
      const segment = parseSegment(await sealBlocks(blocks), nodeDecompress)
      assert.deepEqual(
        segment.blocks.flatMap((_, i) => segment.readBlock(i).rows()),
        rows,
      )
      assert.deepEqual(await auditSegment(segment), [])
    }),
    { ...fuzz, numRuns: 60 },
  )
})

test('random bytes are refused as a segment, a frame and a block body', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => {
      readEverything(bytes)
      mayRefuse(() => decodeFrame(bytes, nodeDecompress))
      mayRefuse(() => decodeBlock(bytes).rows())
    }),
    fuzz,
  )
})

test('a damaged block body is refused or read, never more than that', () => {
  fc.assert(
    fc.property(anyRows, damage, (rows, changes) => {
      const body = damaged(encodeBlockBody(rows), changes)
      const block = mayRefuse(() => decodeBlock(body))
      if (block) assert.deepEqual(encodeBlockBody(block.rows()), body)
    }),
    fuzz,
  )
})

test('a damaged segment is refused or read, with its checksum wrong or made right', () => {
  fc.assert(
    fc.property(fc.constantFrom(...sealedFiles), damage, (file, changes) => {
      readEverything(damaged(file, changes))
      readEverything(withChecksum(damaged(file, changes)))
    }),
    { ...fuzz, numRuns: 1000 },
  )
})

test('a footer with any bytes changed in place is refused or read', () => {
  const inPlace = fc.array(fc.record({ at: fc.nat(), value: fc.nat({ max: 255 }) }), {
    minLength: 1,
    maxLength: 4,
  })
  fc.assert(
    fc.property(fc.constantFrom(...sealedFiles), inPlace, (file, changes) => {
      const bytes = Uint8Array.from(file)
      const footerOffset = new DataView(file.buffer, file.byteOffset).getUint32(58, true)
      for (const { at, value } of changes) {
        // The fields of the header, or any byte of the footer.
        const place = at % (86 + file.length - footerOffset)
        bytes[place < 86 ? 12 + place : footerOffset + place - 86] = value
      }
      readEverything(withChecksum(bytes))
    }),
    { ...fuzz, numRuns: 2000 },
  )
})
