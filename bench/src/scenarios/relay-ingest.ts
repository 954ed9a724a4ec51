import { serveLoad } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { takeIn, type Usage } from '../lib/measure.ts'
import { peers } from '../lib/peers.ts'
import { firehoseUrl, socketUrl, startRelay } from '../lib/services.ts'
import { startStock } from '../lib/stock.ts'

const severalSources = 8

/** Verified commits through the whole relay process: durable, flat out, read by one consumer. */
export async function relayIngest(bench: Bench): Promise<Figure[]> {
  const { commits } = bench.load.parameters
  const one = await ingest(bench, 1)
  const several = await ingest(bench, severalSources)
  const stockCommits = Math.min(commits, bench.effort.stockCommits)
  const stock = await stockIngest(bench, stockCommits)
  const stockPerCpu = { name: 'stock parts, not durable, this run', value: stockCommits / stock.cpuSeconds }
  const stockByClock = { ...stockPerCpu, value: stockCommits / stock.seconds }
  const signatures = { name: 'K-256 verification alone, this run', value: 1e6 / bench.k256Micros }
  return [
    {
      name: 'verified commits per CPU second, durable, one source',
      value: commits / one.cpuSeconds,
      unit: '/s',
      better: 'higher',
      references: [stockPerCpu, ...peers.relayCommitsPerCpuSecond, signatures],
      note: `a commit costs ${((one.cpuSeconds / commits) * 1e6).toFixed(0)} µs, a K-256 verification ${bench.k256Micros.toFixed(0)} µs`,
    },
    {
      name: 'verified commits by the clock, durable, one source',
      value: commits / one.seconds,
      unit: '/s',
      better: 'higher',
      references: [stockByClock, ...peers.relayCommitsByClock],
    },
    {
      name: `verified commits per CPU second, durable, ${severalSources} sources`,
      value: commits / several.cpuSeconds,
      unit: '/s',
      better: 'higher',
      references: [stockPerCpu, ...peers.relayCommitsPerCpuSecond],
    },
    {
      name: `verified commits by the clock, durable, ${severalSources} sources`,
      value: commits / several.seconds,
      unit: '/s',
      better: 'higher',
      references: [stockByClock, ...peers.relayCommitsByClock],
    },
  ]
}

async function ingest(bench: Bench, sources: number): Promise<Usage> {
  bench.say(`relay, ${sources} source(s)`)
  await using host = await serveLoad({ file: bench.loadFile, hosts: sources })
  await using relay = await startRelay(bench, host)
  return await takeIn({
    host,
    process: relay,
    url: firehoseUrl(relay, 0),
    count: bench.load.parameters.commits,
    messages: bench.load.parameters.commits,
  })
}

async function stockIngest(bench: Bench, count: number): Promise<Usage> {
  bench.say('stock parts')
  await using host = await serveLoad({ file: bench.loadFile })
  await using stock = await startStock(bench, host, { verifies: true, output: 'frames' })
  return await takeIn({ host, process: stock, url: socketUrl(stock), count, messages: count })
}
