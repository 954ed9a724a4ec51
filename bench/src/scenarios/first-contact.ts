import { Load, serveLoad, type LoadHost } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { takeIn } from '../lib/measure.ts'
import { firehoseUrl, startRelay } from '../lib/services.ts'

/** How long the directory takes to answer. */
const directoryDelayMs = 5
/** Accounts of the load for each that its first half names: its commits are by accounts drawn at random. */
const accountsPerNew = 1.6
/** Documents that the reference reads, and how many at a time. */
const fetched = { count: 2000, atATime: 16 }

/**
 * Accounts of one host that a relay has never heard of, with a directory that takes its time. The first half of a load
 * is mostly by new accounts, the second mostly by known ones: what the halves differ by is what the new ones cost.
 */
export async function firstContact(bench: Bench): Promise<Figure[]> {
  const half = Math.ceil(bench.effort.newAccounts * accountsPerNew)
  const { file } = await bench.makeLoad({ accounts: half, commits: 2 * half })
  const [newFirst, newThen] = newAccounts(file, half)
  await using host = await serveLoad({ file, directoryDelayMs })
  await using relay = await startRelay(bench, host)
  const intake = { host, process: relay, url: firehoseUrl(relay), count: half, messages: half }
  bench.say(`relay: ${newFirst} new accounts, then ${newThen}`)
  const first = await takeIn(intake)
  const then = await takeIn(intake)
  bench.say('the same documents by fetch')
  const fetching = await fetchDocuments(host)
  const name = `Node's fetch, ${fetched.atATime} at a time, this run`
  return [
    {
      name: 'relay, CPU of the first contact of an account',
      value: ((first.cpuSeconds - then.cpuSeconds) * 1000) / (newFirst - newThen),
      unit: 'ms',
      better: 'lower',
      references: [{ name: `its document by ${name}`, value: fetching.cpuMs }],
    },
    {
      name: `relay, ${newFirst} new accounts of one host passed`,
      value: first.seconds,
      unit: 's',
      better: 'lower',
      references: [{ name: `their documents alone by ${name}`, value: (fetching.ms * newFirst) / 1000 }],
      note: `the directory answers after ${directoryDelayMs} ms; the relay asks it 500 times a second at most`,
    },
  ]
}

/** Accounts that have their first commit in each half of a load. */
function newAccounts(file: string, half: number): [first: number, then: number] {
  using load = new Load(file)
  const first = new Set(load.accountOf.subarray(0, half)).size
  return [first, new Set(load.accountOf).size - first]
}

/** CPU of this process, and time by the clock, for one document. */
async function fetchDocuments(host: LoadHost): Promise<{ cpuMs: number; ms: number }> {
  const waiting = host.info.accounts.slice(0, fetched.count).values()
  const count = Math.min(fetched.count, host.info.accounts.length)
  const startMs = performance.now()
  const startCpu = process.cpuUsage()
  const read = async (): Promise<void> => {
    for (const { did } of waiting) await (await fetch(`${host.plcUrl}/${did}`)).json()
  }
  await Promise.all(Array.from({ length: fetched.atATime }, read))
  const { user, system } = process.cpuUsage(startCpu)
  return { cpuMs: (user + system) / 1000 / count, ms: (performance.now() - startMs) / count }
}
