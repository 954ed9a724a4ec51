import { SegmentError } from '@tributary/segment'
import { StreamError } from './errors.ts'
import type { Runtime } from './runtime.ts'

/** A block of eight rows, compressed. */
const knownFrame =
  'KLUv/WREAiUEAHKEDxWQVwcAwR2xDTPjiFFP2e0aEaT9lAIIGY5FTcrBtNo6XltVz53FNrJdPRCqMZkuCPL//108WHDgNDHg2y4BHwALEwEsgPcyFsd2THaHogKuPiE4FM8YA4AxGHBOInAMuFIgAeQDmYEsIB/IDGSBfEMgAQwMBgYDg4HBwGBgMPAAihUdTUY='
const knownRows = 8

/**
 * Tells a block that is damaged from a decompressor that does not work: skipping every block of an archive would look
 * like an archive without events.
 * @throws StreamError `DecompressorFailed` when a block that is known to be good does not decode either.
 */
export async function checkDecoder(runtime: Pick<Runtime, 'decode'>): Promise<void> {
  const frame = Uint8Array.from(atob(knownFrame), (character) => character.charCodeAt(0))
  try {
    if ((await runtime.decode(frame)).count === knownRows) return
  } catch (error) {
    if (!(error instanceof SegmentError)) throw error
    const cause = error.cause instanceof Error ? `: ${error.cause.message}` : ''
    throw new StreamError('DecompressorFailed', `the zstd decoder cannot decode a good block${cause}`, {
      cause: error,
    })
  }
  throw new StreamError('DecompressorFailed', 'the zstd decoder gives other bytes than were compressed')
}
