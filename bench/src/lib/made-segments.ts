/**
 * Any number of sealed segments whose blocks are holes in the file: headers, indexes and filters are real, so that they can
 * be opened and planned over, and nothing else is on the disk. A few templates are sealed as a stream seals them. Each
 * segment is a template with other seqs and times.
 */
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import {
  encodeBlockIndex,
  encodeSealedHeader,
  parseSegment,
  segmentName,
  type ParsedSegment,
  type Row,
} from '@tributary/segment'
import { ActiveSegment, nodeDecompress } from '@tributary/segment/node'
import { randomFrom, sampleCollections } from '@tributary/testkit'

export const blocksPerSegment = 60
/** Each template has accounts of its own, so a DID is in one segment of so many. */
export const templateCount = 20
const accountsPerTemplate = 2000
const base32 = 'abcdefghijklmnopqrstuvwxyz234567'
const rowsPerBlock = 200
const rowsPerSegment = blocksPerSegment * rowsPerBlock
/** Collections of one block. */
const collectionsPerBlock = 3
const firstMicros = 1_760_000_000_000_000
const stepMicros = 1000

/** An account of a template. */
export function madeDid(template: number, account: number): string {
  const digits = (template * accountsPerTemplate + account).toString(32)
  const letters = Array.from(digits, (digit) => base32[Number.parseInt(digit, 32)])
  return `did:plc:${letters.join('').padStart(24, 'a')}`
}

/** Writes sealed segments into a new folder. */
export async function makeSegments(directory: string, count: number): Promise<void> {
  mkdirSync(directory, { recursive: true })
  const templates: { bytes: Uint8Array; segment: ParsedSegment }[] = []
  for (let template = 0; template < templateCount; template++) {
    const bytes = await sealTemplate(join(directory, 'template'), template)
    templates.push({ bytes, segment: parseSegment(bytes, nodeDecompress) })
  }
  for (let index = 0; index < count; index++) {
    const template = templates[index % templateCount]
    if (template) writeMoved(join(directory, segmentName(index)), template, index)
  }
}

async function sealTemplate(path: string, template: number): Promise<Uint8Array> {
  const random = randomFrom(template)
  const active = await ActiveSegment.create(path)
  for (let block = 0; block < blocksPerSegment; block++) {
    await active.appendBlock(
      Array.from({ length: rowsPerBlock }, (_, i): Row => {
        const seq = 1 + block * rowsPerBlock + i
        const collection =
          sampleCollections[(block + (i % collectionsPerBlock)) % sampleCollections.length] ?? ''
        return {
          seq,
          witnessedAt: firstMicros + seq * stepMicros,
          indexedAt: 0,
          kind: 1,
          collection,
          did: madeDid(template, random.below(accountsPerTemplate)),
          rkey: 'self',
          rev: '3m2222222222a',
          payload: Uint8Array.of(0xa0),
        }
      }),
    )
  }
  await active.seal()
  await active.close()
  const bytes = readFileSync(path)
  rmSync(path)
  return bytes
}

/** Writes header and footer of a template with the seqs and times that it has as the segment of this index. */
function writeMoved(
  path: string,
  { bytes, segment: { header, blocks } }: { bytes: Uint8Array; segment: ParsedSegment },
  index: number,
): void {
  const moved = <T extends Record<'minSeq' | 'maxSeq' | 'minWitnessedAt' | 'maxWitnessedAt', number>>(
    envelope: T,
  ): T => ({
    ...envelope,
    minSeq: envelope.minSeq + index * rowsPerSegment,
    maxSeq: envelope.maxSeq + index * rowsPerSegment,
    minWitnessedAt: envelope.minWitnessedAt + index * rowsPerSegment * stepMicros,
    maxWitnessedAt: envelope.maxWitnessedAt + index * rowsPerSegment * stepMicros,
  })
  const blockIndex = encodeBlockIndex(blocks.map(moved))
  const footer = Buffer.concat([blockIndex, bytes.subarray(header.footerOffset + blockIndex.length)])
  const file = openSync(path, 'w')
  writeSync(file, encodeSealedHeader(moved(header), footer), 0, undefined, 0)
  writeSync(file, footer, 0, undefined, header.footerOffset)
  closeSync(file)
}
