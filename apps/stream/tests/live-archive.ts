import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Fanout, frameMessage } from '@tributary/fanout'
import { createLogger } from '@tributary/telemetry'
import { createXrpcServer, loadLexicons } from '@tributary/xrpc'
import { Archive, type NewRow } from '../src/archive/archive.ts'
import { renderError } from '../src/delivery/render.ts'
import { EventDictionary } from '../src/delivery/event-dictionary.ts'
import { Delivery } from '../src/delivery/delivery.ts'
import { serveDictionary } from '../src/serve/dictionary-method.ts'
import { serveSubscribe } from '../src/serve/subscribe-method.ts'
import { WatchedCollections } from '../src/policy/watched-collections.ts'
import { openStateDatabase } from '../src/state-database.ts'

export interface LiveArchive extends AsyncDisposable {
  url: string
  directory: string
  archive: Archive
  delivery: Delivery
  fanout: Fanout
  /** Rows of the archive that could not be shown. */
  unreadable: number[]
  /** First and last seq of blocks that are damaged. */
  unreadableBlocks: [number, number][]
  append(rows: readonly NewRow[]): void
}

export interface LiveArchiveOptions {
  tailBytesMax?: number
  cacheBytesMax?: number
  blockAgeMsMax?: number
  subscribersMax?: number
  subscribersPerAddressMax?: number
  filterBytesPerAddressMax?: number
  lookBackMs?: number
  progressMs?: number
  /** Default: the collections of the rows of tests. */
  watched?: readonly string[]
}

/** Archive, delivery and `subscribeEvents` without a relay: rows come from the test. */
export async function startLiveArchive(options: LiveArchiveOptions = {}): Promise<LiveArchive> {
  const directory = await mkdtemp(join(tmpdir(), 'live-archive-'))
  const { archive } = await Archive.open({
    directory,
    covered: { appliedSeq: 0, blockSeq: 0 },
    segmentBytesMax: 1 << 28,
    segmentAgeMsMax: 2 ** 50,
    blockAgeMsMax: options.blockAgeMsMax ?? 30_000,
    onFailure: (error) => {
      throw error
    },
  })
  const fanout = new Fanout({
    errorFrame: (error, message) => frameMessage('text', Buffer.from(renderError(error, message))),
    clientMessages: 'refuse',
    protocols: ['xrpc.v1.json'],
  })
  const unreadable: number[] = []
  const unreadableBlocks: [number, number][] = []
  const delivery = new Delivery({
    segments: archive.segments,
    fanout,
    tailBytesMax: options.tailBytesMax ?? 1 << 24,
    cacheBytesMax: options.cacheBytesMax ?? 1 << 24,
    onUnreadableRow: (seq) => unreadable.push(seq),
    onUnreadableBlock: ({ minSeq, maxSeq }) => unreadableBlocks.push([minSeq, maxSeq]),
  })
  archive.onVisible((rows) => delivery.publish(rows))
  archive.onBlockWritten((seq) => delivery.coveredByBlocks(seq))
  const database = openStateDatabase(':memory:')
  const watched = options.watched ?? ['app.a.b', 'app.a.b.c', 'app.a.bc', 'app.b.c']
  const server = createXrpcServer({
    lexicons: loadLexicons(),
    logger: createLogger('test', { level: 'silent' }),
    headerBytesMax: 1 << 20,
  })
  const dictionary = new EventDictionary()
  serveDictionary(server, { dictionary, isCompatible: true })
  serveSubscribe(server, {
    dictionary,
    isCompatible: true,
    segments: archive.segments,
    delivery,
    fanout,
    watched: new WatchedCollections(database, watched, 1),
    lookBackMs: options.lookBackMs ?? 2 ** 50,
    lost: [],
    ...(options.progressMs === undefined ? {} : { progressMs: options.progressMs }),
    subscribersMax: options.subscribersMax ?? 100,
    subscribersPerAddressMax: options.subscribersPerAddressMax ?? 100,
    ...(options.filterBytesPerAddressMax === undefined
      ? {}
      : { filterBytesPerAddressMax: options.filterBytesPerAddressMax }),
  })
  const { url } = await server.listen({ host: '127.0.0.1', port: 0 })
  return {
    url,
    directory,
    archive,
    delivery,
    fanout,
    unreadable,
    unreadableBlocks,
    append: (rows) => {
      for (const [i, row] of rows.entries()) archive.append(row, { seq: i, epoch: 0 })
    },
    async [Symbol.asyncDispose]() {
      await fanout.close()
      await server.close()
      await archive.close()
      database.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
