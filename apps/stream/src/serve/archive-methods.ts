/**
 * The archive over HTTP (segment-format.md 12): a plan of what to fetch, whole segments, single blocks, and a list.
 * Only sealed segments show. Every method needs an API key, which is asked for before anything else of a request.
 */
import { parseSegmentName, planSnapshot } from '@tributary/segment'
import type { SealedSegment, SegmentDirectory } from '@tributary/segment/node'
import { CallerRate, type QueryContext, type RouteContext, XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { ApiKey, ApiKeys } from '../policy/api-keys.ts'
import { PlanTurns } from './plan-turns.ts'
import { sendBytes, type Servable } from './send-bytes.ts'
import { checkFilter, type SubscribeParams } from './subscription-params.ts'

export interface ArchiveMethodsOptions {
  segments: SegmentDirectory
  keys: ApiKeys
  /** Seconds that caches may serve segments and blocks without asking again. 0: they ask every time. */
  cacheSeconds: number
  /** Whether the methods answer under their Jetstream v2 names, too. */
  isCompatible: boolean
  /** Whether a segment may hold records that were taken down. */
  isPending: (segment: SealedSegment) => Promise<boolean>
  /** A request with a good key came. */
  onRequest: (method: string) => void
}

const ownPrefix = 'network.social.stream'
const jetstreamPrefix = 'network.bsky.jetstream'
const methods = ['planSnapshot', 'getSegment', 'getBlock', 'listSegments'] as const

/** Segments of one page. More are asked for under the Jetstream name without an error. */
const listedMax = 1000
/** Requests of one network, with a key or without. A reader of everything in parts sends some thousand. */
const requestsPerMinuteMax = 6000

interface PlanInput extends Pick<SubscribeParams, 'kinds' | 'collections' | 'dids'> {
  afterSeq?: number
  beforeSeq?: number
}

/** Adds the archive methods to a server. */
export function serveArchive(server: XrpcServer, options: ArchiveMethodsOptions): void {
  const { segments, cacheSeconds } = options
  const cacheControl = cacheSeconds === 0 ? 'public, no-cache' : `public, max-age=${cacheSeconds}`
  /** What was taken down has yet to leave the segment. */
  const tellPending = async ({ reply }: RouteContext, segment: SealedSegment): Promise<void> => {
    if (await options.isPending(segment)) reply.header('Tributary-Pending', 'takedown')
  }
  const keyOf = requireKeys(server, options)
  const planTurns = new PlanTurns()
  /** Answers for a key. The answer is under way until it was made and its connection is done with it, read or not. */
  const underWay = async <T>(context: RouteContext, answer: (key: ApiKey) => Promise<T>): Promise<T> => {
    const { raw } = context.reply
    const key = keyOf(context)
    const end = options.keys.beginAnswer(key)
    try {
      return await answer(key)
    } finally {
      if (raw.closed) end()
      else raw.once('close', end)
    }
  }
  const counted = (key: ApiKey, read: Servable['read']): Servable['read'] =>
    countBytes(read, (count) => options.keys.countBytes(key, count))

  const plan = (context: RouteContext & { input: PlanInput }): Promise<unknown> =>
    underWay(context, async () => {
      const { input, clientAddress } = context
      const { afterSeq = 0, beforeSeq } = input
      if (beforeSeq !== undefined && input.afterSeq !== undefined && beforeSeq <= afterSeq) {
        throw new XrpcError(400, 'InvalidRequest', 'beforeSeq must be above afterSeq')
      }
      const pause = (): Promise<void> => planTurns.next(clientAddress)
      await pause()
      const range = { afterSeq, ...(beforeSeq === undefined ? {} : { beforeSeq }) }
      return planSnapshot(segments.sealed, { ...checkFilter(input), ...range }, { pause })
    })

  const getSegment = (context: QueryContext<{ name: string }>): Promise<unknown> =>
    underWay(context, async (key) => {
      const segment = sealedSegment(segments, context.params.name)
      await tellPending(context, segment)
      return sendBytes(context, {
        size: segment.fileBytes,
        etag: `"${segment.header.checksum}"`,
        modifiedAtMs: segment.modifiedAtMs,
        cacheControl,
        read: counted(key, (start, end) => segment.readBytes(start, end)),
      })
    })
  const getBlock = (context: QueryContext<{ segment: string; blockIndex: number }>): Promise<unknown> =>
    underWay(context, async (key) => {
      const { segment: name, blockIndex } = context.params
      const segment = sealedSegment(segments, name)
      if (blockIndex >= segment.blocks.length) {
        throw new XrpcError(
          404,
          'BlockNotFound',
          `${name} has ${segment.blocks.length} blocks, counted from 0`,
        )
      }
      const frame = await segment.readFrame(blockIndex)
      await tellPending(context, segment)
      return sendBytes(context, {
        size: frame.length,
        etag: `"${segment.header.checksum}:${blockIndex}"`,
        modifiedAtMs: segment.modifiedAtMs,
        cacheControl,
        read: counted(key, async function* (start, end) {
          yield frame.subarray(start, end)
        }),
      })
    })
  const list = ({ params }: { params: { limit: number; cursor?: string } }): unknown => {
    const { cursor } = params
    const limit = Math.min(params.limit, listedMax)
    if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) {
      throw new XrpcError(400, 'InvalidRequest', 'cursor must be one that this method returned')
    }
    const from = Number(cursor ?? 0)
    const rest = segments.sealed.filter(({ index }) => index >= from)
    const next = rest[limit]
    return {
      ...(next ? { cursor: String(next.index) } : {}),
      segments: rest.slice(0, limit).map((segment) => describe(segment)),
    }
  }

  for (const prefix of prefixesOf(options)) {
    server.procedure<unknown, PlanInput>(`${prefix}.planSnapshot`, plan)
    server.query(`${prefix}.getSegment`, getSegment, { methods: ['GET', 'HEAD'] })
    server.query(`${prefix}.getBlock`, getBlock, { methods: ['GET', 'HEAD'] })
    server.query<{ limit: number; cursor?: string }>(`${prefix}.listSegments`, list)
  }
}

/** What the names of the methods begin with. */
function prefixesOf({ isCompatible }: ArchiveMethodsOptions): string[] {
  return isCompatible ? [ownPrefix, jetstreamPrefix] : [ownPrefix]
}

/** Lets nobody call the methods without a key. @returns the key with which a request came. */
function requireKeys(server: XrpcServer, options: ArchiveMethodsOptions): (context: RouteContext) => ApiKey {
  const { keys, onRequest } = options
  const paths = new Map<string | undefined, string>(
    prefixesOf(options).flatMap((prefix) =>
      methods.map((method) => [`/xrpc/${prefix}.${method}`, method] as const),
    ),
  )
  const rate = new CallerRate(requestsPerMinuteMax)
  const keyOfRequest = new WeakMap<object, ApiKey>()
  server.fastify.addHook('onRequest', async (request) => {
    const method = paths.get(request.routeOptions.url)
    if (method === undefined) return
    rate.take(server.clientAddressOf(request.raw))
    const key = keys.authenticate(request.headers.authorization)
    keys.takeRequest(key)
    keyOfRequest.set(request, key)
    onRequest(method)
  })
  return ({ request }) => {
    const key = keyOfRequest.get(request)
    if (!key) throw new Error('a request of the archive was let through without a key')
    return key
  }
}

/** Counts bytes as they are given away. */
function countBytes(read: Servable['read'], count: (bytes: number) => void): Servable['read'] {
  return async function* (start, end) {
    for await (const bytes of read(start, end)) {
      count(bytes.length)
      yield bytes
    }
  }
}

function sealedSegment(segments: SegmentDirectory, name: string): SealedSegment {
  const index = parseSegmentName(name)
  if (index === undefined) {
    throw new XrpcError(400, 'InvalidRequest', 'A segment is named like seg_0000000000.jss')
  }
  const segment = segments.findSealed(index)
  if (!segment) throw new XrpcError(404, 'SegmentNotFound', `${name} is not a sealed segment of this archive`)
  return segment
}

function describe({ name, index, fileBytes, header }: SealedSegment): Record<string, string | number> {
  const { checksum, eventCount, minSeq, maxSeq, minWitnessedAt, maxWitnessedAt } = header
  return {
    name,
    index,
    sizeBytes: fileBytes,
    checksum,
    eventCount,
    minSeq,
    maxSeq,
    minWitnessedAt,
    maxWitnessedAt,
  }
}
