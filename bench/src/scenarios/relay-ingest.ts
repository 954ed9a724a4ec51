import { serveLoad } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { introduce, takeIn, type Usage } from '../lib/measure.ts'
import { peers, withScaled } from '../lib/peers.ts'
import { firehoseUrl, socketUrl, startRelay } from '../lib/services.ts'
import { startStock } from '../lib/stock.ts'

const severalSources = 8
const manySources = 200

/** Verified commits through the whole relay process: durable, flat out, read by one consumer. */
export async function relayIngest(bench: Bench): Promise<Figure[]> {
  const one = rates(await ingest(bench, 1))
  const several = rates(await ingest(bench, severalSources))
  const stock = rates(await stockIngest(bench))
  const stockName = 'stock parts, not durable, this run'
  const stockPerCpu = { name: stockName, value: stock.perCpu }
  const stockByClock = { name: stockName, value: stock.byClock }
  const signatures = { name: 'K-256 verification alone, this run', value: 1e6 / bench.k256Micros }
  const peersPerCpu = withScaled(peers.relayCommitsPerCpuSecond, bench.k256Micros)
  const peersByClock = withScaled(peers.relayCommitsByClock, bench.k256Micros)
  const micros = 1e6 / one.perCpu
  return [
    {
      name: 'verified commits per CPU second, durable, one source',
      value: one.perCpu,
      unit: '/s',
      better: 'higher',
      references: [stockPerCpu, ...peersPerCpu, signatures],
      note: `a commit costs ${micros.toFixed(0)} µs, of which one K-256 verification is ${bench.k256Micros.toFixed(0)} µs (${((bench.k256Micros / micros) * 100).toFixed(0)} %)`,
    },
    {
      name: 'verified commits by the clock, durable, one source',
      value: one.byClock,
      unit: '/s',
      better: 'higher',
      references: [stockByClock, ...peersByClock],
    },
    {
      name: `verified commits per CPU second, durable, ${severalSources} sources`,
      value: several.perCpu,
      unit: '/s',
      better: 'higher',
      references: [stockPerCpu, ...peersPerCpu],
    },
    {
      name: `verified commits by the clock, durable, ${severalSources} sources`,
      value: several.byClock,
      unit: '/s',
      better: 'higher',
      references: [stockByClock, ...peersByClock],
    },
  ]
}

/** The same from 200 sources, each on a connection of its own, as figures beside those of one. */
export async function relaySources(bench: Bench): Promise<Figure[]> {
  const one = rates(await ingest(bench, 1))
  const many = rates(await ingest(bench, manySources))
  return [
    {
      name: `verified commits per CPU second, durable, ${manySources} sources`,
      value: many.perCpu,
      unit: '/s',
      better: 'higher',
      references: [{ name: 'one source, this run', value: one.perCpu }],
    },
    {
      name: `verified commits by the clock, durable, ${manySources} sources`,
      value: many.byClock,
      unit: '/s',
      better: 'higher',
      references: [{ name: 'one source, this run', value: one.byClock }],
    },
  ]
}

interface Measured extends Usage {
  commits: number
}

/** Figures per second: of CPU, and by the clock. */
function rates({ commits, cpuSeconds, seconds }: Measured): { perCpu: number; byClock: number } {
  return { perCpu: commits / cpuSeconds, byClock: commits / seconds }
}

async function ingest(bench: Bench, sources: number): Promise<Measured> {
  bench.say(`relay, ${sources} source(s)`)
  await using host = await serveLoad({ file: bench.loadFile, hosts: sources })
  await using relay = await startRelay(bench, host)
  const url = firehoseUrl(relay)
  const known = await introduce({ host, process: relay, url })
  const commits = bench.load.parameters.commits - known
  return { commits, ...(await takeIn({ host, process: relay, url, count: commits, messages: commits })) }
}

async function stockIngest(bench: Bench): Promise<Measured> {
  bench.say('stock parts')
  await using host = await serveLoad({ file: bench.loadFile })
  await using stock = await startStock(bench, host, { verifies: true, output: 'frames' })
  const commits = Math.min(bench.load.parameters.commits, bench.effort.stockCommits)
  const run = { host, process: stock, url: socketUrl(stock), count: commits, messages: commits }
  return { commits, ...(await takeIn(run)) }
}
