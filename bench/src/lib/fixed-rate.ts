import { startCountReader, type LoadHost, type ServiceProcess } from '@tributary/testkit'
import type { Bench } from './bench.ts'
import { allSeen, introduce, takeIn, usageOf, type Usage } from './measure.ts'
import type { WatchedEvents } from './watched-events.ts'

/** A process under test that takes in a load and hands it on. */
export interface Subject {
  /** For the progress report. */
  name: string
  host: LoadHost
  process: ServiceProcess
  /** Where readers read live. */
  url: string
  /** Messages that come out of the first so many commits. */
  shown: WatchedEvents
}

export interface Phase {
  readers: number
  /** Commits a second, over all hosts. */
  rate: number
  /** How many commits. */
  count: number
}

export interface PhaseResult extends Usage {
  /** Messages that came out, times readers. */
  deliveries: number
  /** When each event of the load arrived at the first reader; empty without one. */
  arrivalsMs: Float64Array
}

/** A third of the load, most of it flat out, makes accounts and code known, so that neither is part of what is measured after. */
export async function warmUp(bench: Bench, { name, host, process, url, shown }: Subject): Promise<void> {
  bench.say(`${name}: warming up`)
  const from = await introduce({ host, process, url }, shown)
  const to = Math.floor(bench.load.parameters.commits / 3)
  await takeIn({ host, process, url, count: to - from, messages: shown(to) - shown(from) })
}

/** How many commits each of several phases gets: what it asks for, or its share of what warming up has left. */
export function phaseCommits(bench: Bench, wanted: number, phases: number): number {
  return Math.min(wanted, Math.floor((bench.load.parameters.commits * 2) / 3 / phases))
}

/** Plays further commits at a fixed rate until every reader has everything that comes of them. */
export async function runPhase(bench: Bench, subject: Subject, phase: Phase): Promise<PhaseResult> {
  const { name, host, process, url, shown } = subject
  const { readers, rate, count } = phase
  bench.say(`${name}: ${readers} readers at ${rate}/s`)
  const from = await host.position()
  if (from + count > bench.load.parameters.commits) throw new Error('the load is too small for this phase')
  const play = (): Promise<number> => host.play({ rate, count })
  if (readers === 0)
    return { ...(await usageOf(process, play)), deliveries: 0, arrivalsMs: new Float64Array(0) }
  await using reader = await startCountReader({ url, connections: readers, measures: bench.load })
  const messages = shown(from + count) - shown(from)
  const usage = await usageOf(process, async () => {
    await play()
    await allSeen(reader, messages, process)
  })
  return { ...usage, deliveries: messages * readers, arrivalsMs: await reader.arrivalsMs() }
}
