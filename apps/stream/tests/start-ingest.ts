import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createResolver, type IdentityResolver } from '@tributary/identity'
import type { RepeatingClock } from '@tributary/lanes'
import { inTime } from '@tributary/testkit'
import { createLogger } from '@tributary/telemetry'
import { watchedCollections } from '@tributary/protocol'
import type { Row } from '@tributary/segment'
import { Archive } from '../src/archive/archive.ts'
import { Ingest } from '../src/ingest/ingest.ts'
import { RepoStates } from '../src/ingest/repo-states.ts'
import { IngestReport } from '../src/ingest/report.ts'
import { createStreamMetrics } from '../src/metrics.ts'
import type { WatchPolicy } from '../src/policy/watched-collections.ts'
import { openStateDatabase } from '../src/state-database.ts'
import { newVerification, type StreamVerification } from '../src/verify/verification.ts'

const attested: ReadonlySet<string> = new Set(
  watchedCollections.filter((each) => each.startsWith('app.attested.')),
)

export interface TestIngest extends AsyncDisposable {
  archive: Archive
  ingest: Ingest
  states: RepoStates
  report: IngestReport
  /** Rows of the log and of the relay, in the order in which they were shown. */
  rows: Row[]
  /** Resolves when a condition holds, now or after rows were shown. Rejects when it does not hold in time. */
  until(isMet: () => boolean): Promise<void>
  refused(): Promise<string>
}

export interface TestIngestOptions {
  directory: string
  relayUrl: string
  /** Without it the relay is trusted. */
  plcUrl?: string
  /** What reads identities in the place of the usual resolver. */
  resolving?: (resolver: IdentityResolver) => IdentityResolver
  /** What is watched, asked anew for each event. Default: all collections of `app.attested`. */
  watched?: () => ReadonlySet<string>
  /** The same, with what came when. Default: nothing was added since the beginning. */
  policy?: WatchPolicy
  /** Told of accounts that were taken down, from the start on. */
  onTakedown?: (did: string) => void
  /** Told that every PDS is to be read again, from the start on. */
  onWindowMissed?: () => void
  /** What verifies. Default: threads. */
  verification?: StreamVerification
  /** Default: that of the machine. */
  clock?: RepeatingClock
  /** Milliseconds between saves. Default: none before the end. */
  saveMs?: number
}

/** Ingest and archive without anything behind them. */
export async function startIngest(options: TestIngestOptions): Promise<TestIngest> {
  const { directory, plcUrl, resolving = (resolver) => resolver, policy } = options
  const { watched = () => policy?.names() ?? attested } = options
  mkdirSync(directory, { recursive: true })
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  const states = new RepoStates(database)
  const { archive, recovered } = await Archive.open({
    directory,
    covered: states.covered,
    segmentBytesMax: 1 << 28,
    segmentAgeMsMax: 2 ** 50,
    onFailure: (error) => {
      throw error
    },
  })
  const metrics = createStreamMetrics()
  const report = new IngestReport(createLogger('test', { level: 'silent' }), metrics)
  if (options.onTakedown) report.whenTakenDown(options.onTakedown)
  if (options.onWindowMissed) report.onWindowMissed(options.onWindowMissed)
  const ingest = new Ingest({
    relayUrl: options.relayUrl.replace('http', 'ws'),
    checks:
      plcUrl === undefined
        ? undefined
        : {
            resolver: resolving(createResolver({ plcUrl, allowedPrivateHosts: [] })),
            verification: options.verification ?? newVerification({ workers: 1, watched }),
          },
    watched: policy ?? {
      has: (collection) => watched().has(collection),
      names: watched,
      revision: 1,
      newestAddition: 1,
      isAddedAfter: () => false,
      isAnyAddedAgain: () => false,
    },
    states,
    sink: archive,
    unapplied: recovered.unapplied,
    unappliedOfBackfill: recovered.unappliedOfBackfill,
    observer: report,
    ...(options.clock && { clock: options.clock }),
    saveMs: options.saveMs ?? 2 ** 31 - 1,
    reconnectMs: { first: 1, max: 1 },
  })
  const rows = recovered.pending.map(({ row }) => row)
  const waiting: { isMet: () => boolean; resolve: () => void }[] = []
  archive.onVisible((shown) => {
    rows.push(...shown.map(({ row }) => row))
    for (const { isMet, resolve } of waiting) if (isMet()) resolve()
  })
  ingest.start()
  return {
    archive,
    ingest,
    states,
    report,
    rows,
    async until(isMet) {
      if (isMet()) return
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting.push({ isMet, resolve })
      const said = ({ seq, kind, did, rkey }: Row): string => `${seq} kind ${kind} ${did} ${rkey}`
      await inTime(promise, () => `${rows.length} rows, the last: ${rows.slice(-8).map(said).join(', ')}`)
    },
    refused: () => metrics.all.text(),
    async [Symbol.asyncDispose]() {
      await ingest.close()
      await archive.close()
      database.close()
    },
  }
}
