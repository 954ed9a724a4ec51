import { ByteWriter } from '@tributary/protocol'
import type { ClientEvent } from './batch.ts'
import { StreamError } from './errors.ts'
import { writeEvent } from './row-event.ts'

const firstBytes = 256 * 1024
const lineEnd = 10

/** Turns events into lines of JSON. Records of the archive go from their bytes to the text without objects in between. */
export class NdjsonWriter {
  #out = new ByteWriter(firstBytes)

  /**
   * The lines of these events, in a memory that the next call writes over. Events that are malformed are left out and
   * named in `malformed`.
   */
  lines(events: readonly ClientEvent[]): { bytes: Uint8Array; malformed: StreamError[] } {
    const out = this.#out
    out.cut(0)
    const malformed: StreamError[] = []
    for (const event of events) {
      const start = out.length
      try {
        writeEvent(event, out)
        out.byte(lineEnd)
      } catch (error) {
        if (!(error instanceof StreamError)) throw error
        out.cut(start)
        malformed.push(error)
      }
    }
    return { bytes: out.written, malformed }
  }
}
