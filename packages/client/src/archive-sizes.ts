import { StreamError } from './errors.ts'
import { callXrpc, readJson, type Server } from './http.ts'
import { isObject } from './json.ts'
import { type PlanEntry, segmentNameCharsMax } from './plan.ts'

const pageBytesMax = 4 * 1024 * 1024
const pageSegmentsMax = 1000
/** Segments have 64 to 256 blocks, so this is a hundred times the archives that we know of. */
const pagesMax = 100
/** Rows of a block that is full. */
const blockRows = 4096

/** Sizes of the segments of an archive, to tell how much of a plan is still to come. Estimates, where blocks are planned. */
export class ArchiveSizes {
  readonly #segments: ReadonlyMap<string, { bytes: number; blocks: number }>

  private constructor(segments: ReadonlyMap<string, { bytes: number; blocks: number }>) {
    this.#segments = segments
  }

  /** Undefined where a server does not list its segments: nothing depends on it but progress. */
  static async read(server: Server, signal: AbortSignal): Promise<ArchiveSizes | undefined> {
    const segments = new Map<string, { bytes: number; blocks: number }>()
    let cursor: string | undefined
    try {
      for (let page = 0; page < pagesMax; page++) {
        const params = { limit: String(pageSegmentsMax), ...(cursor !== undefined && { cursor }) }
        const body = await readJson(
          await callXrpc(server, { method: 'listSegments', params, signal }),
          pageBytesMax,
        )
        if (!isObject(body) || !Array.isArray(body['segments'])) return undefined
        if (body['segments'].length > pageSegmentsMax) return undefined
        for (const segment of body['segments']) {
          if (!isObject(segment)) return undefined
          const { name, sizeBytes, eventCount } = segment
          if (typeof name !== 'string' || typeof sizeBytes !== 'number' || typeof eventCount !== 'number')
            return undefined
          if (name.length > segmentNameCharsMax) return undefined
          segments.set(name, { bytes: sizeBytes, blocks: Math.ceil(eventCount / blockRows) })
        }
        if (typeof body['cursor'] !== 'string') break
        cursor = body['cursor']
      }
    } catch (error) {
      if (error instanceof StreamError) return undefined
      throw error
    }
    return new ArchiveSizes(segments)
  }

  /** Bytes of an entry of a plan. */
  bytesOf({ name, blocks }: PlanEntry): number {
    const segment = this.#segments.get(name)
    if (segment === undefined) return 0
    if (blocks === undefined) return segment.bytes
    const wanted = blocks.reduce((sum, { first, last }) => sum + last - first + 1, 0)
    const all = Math.max(1, segment.blocks, (blocks.at(-1)?.last ?? 0) + 1)
    return Math.round((segment.bytes * wanted) / all)
  }
}
