import { serveLoad } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { startFilledRelay } from '../lib/fill.ts'
import { readThrough, takeIn, usageOf } from '../lib/measure.ts'
import { peers } from '../lib/peers.ts'
import { eventsUrl, socketUrl, startStream } from '../lib/services.ts'
import { startStock } from '../lib/stock.ts'
import { readWatchedEvents, type WatchedEvents } from '../lib/watched-events.ts'

/**
 * A relay's whole log through the stream process into its archive, flat out, read by one subscriber. Counted are the
 * relay's events, as the figures of other programs are; those of unwatched collections are not shown.
 */
export async function streamIngest(bench: Bench): Promise<Figure[]> {
  const { commits } = bench.load.parameters
  const watched = readWatchedEvents(bench.loadFile)
  const figures: Figure[] = []
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startFilledRelay(bench, host)
  for (const verify of ['off', 'full'] as const) {
    bench.say(`stream, verify=${verify}`)
    await using stream = await startStream(bench, host, relay, { VERIFY: verify })
    const read = () => readThrough(stream, eventsUrl(stream, 1), watched(commits))
    const { cpuSeconds, seconds } = await usageOf(stream, read)
    const stock = await stockIngest(bench, verify === 'full', watched)
    const isComparable = verify === 'off'
    figures.push(
      {
        name: `events per CPU second, durable, verify=${verify}`,
        value: commits / cpuSeconds,
        unit: '/s',
        better: 'higher',
        references: [
          { name: 'stock parts, not stored, this run', value: stock.perCpuSecond },
          ...(isComparable ? peers.streamEventsPerCpuSecond : []),
        ],
      },
      {
        name: `events by the clock, durable, verify=${verify}`,
        value: commits / seconds,
        unit: '/s',
        better: 'higher',
        references: [
          { name: 'stock parts, not stored, this run', value: stock.byClock },
          ...(isComparable ? peers.streamEventsByClock : []),
        ],
      },
    )
  }
  return figures
}

async function stockIngest(
  bench: Bench,
  verifies: boolean,
  watched: WatchedEvents,
): Promise<{ perCpuSecond: number; byClock: number }> {
  bench.say(`stock parts, ${verifies ? 'verifying' : 'trusting'}`)
  const commits = Math.min(bench.load.parameters.commits, bench.effort.stockCommits)
  await using host = await serveLoad({ file: bench.loadFile })
  await using stock = await startStock(bench, host, { verifies, output: 'json' })
  const run = { host, process: stock, url: socketUrl(stock), count: commits, messages: watched(commits) }
  const { cpuSeconds, seconds } = await takeIn(run)
  return { perCpuSecond: commits / cpuSeconds, byClock: commits / seconds }
}
