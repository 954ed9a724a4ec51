import { Load, serveLoad, type LoadHost } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { takeIn } from '../lib/measure.ts'
import { firehoseUrl, startRelay } from '../lib/services.ts'

/** How long the directory takes to answer. */
const directoryDelayMs = 5
/**
 * Accounts of the load for each that its first measured part names: its commits are by accounts drawn at random, and the
 * warm-up has named some already.
 */
const accountsPerNew = 2
/** Commits of the warm-up for each of a measured part. A program that just started compiles its code, which is no account's cost. */
const warmUpShare = 0.25
/** Documents that the reference reads, and how many at a time. */
const fetched = { count: 2000, atATime: 16 }

/**
 * Accounts of one host that a relay has never heard of, with a directory that takes its time. After a warm-up, the first
 * part of a load is mostly by new accounts, the second mostly by known ones: what they differ by is what the new ones cost.
 */
export async function firstContact(bench: Bench): Promise<Figure[]> {
  const part = Math.ceil(bench.effort.newAccounts * accountsPerNew)
  const warmUp = Math.ceil(part * warmUpShare)
  const { file } = await bench.makeLoad({ accounts: part, commits: warmUp + 2 * part })
  const [, newFirst = 0, newThen = 0] = newAccounts(file, [0, warmUp, warmUp + part, warmUp + 2 * part])
  await using host = await serveLoad({ file, directoryDelayMs })
  await using relay = await startRelay(bench, host)
  const ends = { host, process: relay, url: firehoseUrl(relay) }
  bench.say(`relay: a warm-up of ${warmUp} commits`)
  await takeIn({ ...ends, count: warmUp, messages: warmUp })
  const intake = { ...ends, count: part, messages: part }
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

/** Accounts that have their first commit in each part of a load, of which `edges` are the first commit and the one behind its last. */
function newAccounts(file: string, edges: readonly number[]): number[] {
  using load = new Load(file)
  const known = edges.map((edge) => new Set(load.accountOf.subarray(0, edge)).size)
  return known.slice(1).map((count, i) => count - (known[i] ?? 0))
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
