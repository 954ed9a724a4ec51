/** One act of a campaign: some strategies at the same time for some seconds, what broke meanwhile, and the figures. */
import { readFileSync } from 'node:fs'
import { percentile } from '@tributary/testkit'
import type { Arena } from './arena.ts'
import type { Breach, Delay } from './witness.ts'

/** The processes whose use of the machine is shown. */
type CountedProcess = 'relay' | 'stream' | 'directory' | 'hostile' | 'witness'

export interface Act {
  names: readonly string[]
  seed: number
  ms: number
}

/** What the services were like during an act. */
export interface Figures {
  /** From the host to the consumer, in milliseconds; what was not seen counts as its age. */
  delays: { relay: Float64Array; stream: Float64Array }
  /** Longest turn of the event loop, without what the thread waited for a core. The bystander's has it in it. */
  turnMs: { relay: number; stream: number; bystander: number }
  /** How long the thread waited for the disk in that turn. */
  diskMs: { relay: number; stream: number }
  /** How long small writes to the disk took from the moment at which they were due, shortest first. */
  syncsMs: Float64Array
  memoryBytes: { relay: number; stream: number }
  /** How much of a core each process used, and this one. */
  cores: Record<CountedProcess, number>
  /** How busy the machine was, 0 to 1. */
  busy: number
}

/** What the promises allow, beside what the machine takes from every process. */
export const bars: { delayMs: number; turnMs: number; memoryBytes: number } = {
  delayMs: 50,
  turnMs: 100,
  memoryBytes: 400e6,
}
/** Processes that an event passes on its way, each of which may have to wait for the machine. */
const hops = { relay: 3, stream: 4 }
/** Syncs of the disk that an event waits for on its way: in each log for the one under way, and for its own. */
const syncs = { relay: 2, stream: 4 }
/** How long after an act what was sent in it may take, before it counts as held up. */
const settleMs = 10_000

/** Plays an act. `isHealthy` is false when the arena cannot be used further. */
export async function playAct(
  arena: Arena,
  act: Act,
  breaches: Breach[],
): Promise<{ figures: Figures; counts: Record<string, number>; isHealthy: boolean }> {
  const { relay, stream, honest, hostile, bystander, relayWitness, streamWitness } = arena
  // A change of an honest account has to wait for a directory that does not answer.
  if (act.names.some((name) => name.startsWith('directory'))) {
    honest.endChanges()
    await arena.settle(settleMs)
  }
  await hostile.comeBack()
  // A kill at the end of the act before delays no event of this one.
  await Promise.all([relay.whenUp(), stream.whenUp()])
  await arena.settle(settleMs)
  relay.takeFigures()
  stream.takeFigures()
  await bystander.takeFigures()
  const ticks = machineTicks()
  const cpu = cpuOf(arena)
  const fromMs = performance.now()
  const lost = Promise.race([relay.lost, stream.lost]).then(() => undefined)
  const report = await Promise.race([hostile.play({ ...act, victims: arena.victims }), lost])
  const toMs = performance.now()
  const busy = busySince(ticks)
  const cores = coresSince(cpu, cpuOf(arena), toMs - fromMs)
  honest.beginChanges()
  if (report) await arena.settle(settleMs)
  const machine = await bystander.takeFigures()

  // Hosts whose strategies change documents do without it while the directory is away.
  const isAway = act.names.some((name) => name.startsWith('directory'))
  const faults = report?.faults.filter((fault) => !(isAway && fault.includes('fetch failed'))) ?? []
  for (const fault of faults) breaches.push({ promise: 'A4', what: `the campaign itself: ${fault}` })
  const missing = arena.missing(settleMs)
  for (const name of ['relay', 'stream', 'framings'] as const) {
    if (missing[name] === 0) continue
    const held = `${missing[name]} events of honest hosts are held up for more than ${settleMs / 1000} s`
    const what = `${name}: ${held}: ${arena.describeMissing(name)}`
    breaches.push({ promise: 'A2', what })
  }
  const [ofRelay, ofStream] = [relay.takeFigures(), stream.takeFigures()]
  const figures: Figures = {
    delays: {
      relay: delaysOf(relayWitness, fromMs, toMs),
      stream: delaysOf(streamWitness, fromMs, toMs),
    },
    turnMs: { relay: ofRelay.turn.ms, stream: ofStream.turn.ms, bystander: machine.turnMs },
    diskMs: { relay: ofRelay.turn.diskMs, stream: ofStream.turn.diskMs },
    syncsMs: machine.syncsMs,
    memoryBytes: { relay: ofRelay.memoryBytes, stream: ofStream.memoryBytes },
    cores,
    busy,
  }
  const isHealthy = report !== undefined && missing.relay + missing.stream + missing.framings === 0
  return { figures, counts: report?.counts ?? {}, isHealthy }
}

/** What the memory that services took in an act breaks. */
export function memoryOver({ memoryBytes }: Figures): Breach[] {
  return (['relay', 'stream'] as const)
    .filter((name) => memoryBytes[name] > bars.memoryBytes)
    .map((name) => ({ promise: 'A3', what: `${name}: ${(memoryBytes[name] / 1e6).toFixed(0)} MB` }))
}

/**
 * Which times of an act are over their bars. A machine that stands still for a moment causes this too, unseen by a
 * bystander on its other core. So an act breaks a promise only when its times are over the bars again.
 *
 * @param base the figures without hostile hosts. Undefined for these themselves: delays are held against them.
 */
export function timesOver(figures: Figures, act: Act, base?: Figures): Breach[] {
  const { turnMs, diskMs, syncsMs } = figures
  // A small write to the log is made in the event loop while the disk is quick. That it stands still then is the machine's,
  // for as long as it stood still for the bystander.
  const stillMs = syncsMs.at(-1) ?? 0
  const turns = (['relay', 'stream'] as const)
    .filter((name) => turnMs[name] - Math.min(diskMs[name], stillMs) > bars.turnMs)
    .map((name): Breach => ({
      promise: 'A6',
      what: `${name}: a turn of ${turnMs[name].toFixed(0)} ms, ${diskMs[name].toFixed(0)} ms of it for the disk, which had the bystander wait for ${stillMs.toFixed(0)} ms`,
    }))
  // An act has few hundred events, of which one burst may delay the last hundredth.
  return base && !isKilling(act) ? [...turns, ...delayBreaches(figures, base, 0.95)] : turns
}

/** What the delays of a whole campaign break. */
export function breachesOfAll(played: readonly { act: Act; figures: Figures }[], base: Figures): Breach[] {
  const counted = played.filter(({ act }) => !isKilling(act)).map(({ figures }) => figures)
  if (counted.length === 0) return []
  const all = (name: 'relay' | 'stream'): Float64Array =>
    Float64Array.from(counted.flatMap(({ delays }) => [...delays[name]])).toSorted()
  const waits = Float64Array.from(counted, ({ turnMs }) => turnMs.bystander).toSorted()
  const syncsMs = Float64Array.from(counted.flatMap((figures) => [...figures.syncsMs])).toSorted()
  const turnMs = { bystander: percentile(waits, 0.5) }
  return delayBreaches(
    { delays: { relay: all('relay'), stream: all('stream') }, turnMs, syncsMs },
    base,
    0.99,
  )
}

/** Whether services are killed in an act: one that is killed is away for as long as its start takes. */
export function isKilling({ names }: Pick<Act, 'names'>): boolean {
  return names.some((name) => name.startsWith('kill'))
}

type Delays = Pick<Figures, 'delays' | 'syncsMs'> & { turnMs: Pick<Figures['turnMs'], 'bystander'> }

function delayBreaches({ delays, turnMs, syncsMs }: Delays, base: Figures, share: number): Breach[] {
  const slowerMs = Math.max(0, percentile(syncsMs, share) - percentile(base.syncsMs, 0.99))
  return (['relay', 'stream'] as const).flatMap((name): Breach[] => {
    const [quietMs, ms] = [percentile(base.delays[name], 0.99), percentile(delays[name], share)]
    const machineMs = hops[name] * turnMs.bystander + syncs[name] * slowerMs
    if (ms <= quietMs + bars.delayMs + machineMs) return []
    const measured = `delay of honest hosts p${share * 100} ${ms.toFixed(0)} ms`
    return [
      {
        promise: 'A2',
        what: `${name}: ${measured}, p99 ${quietMs.toFixed(0)} ms without hostile ones, ${machineMs.toFixed(0)} ms of it the machine's`,
      },
    ]
  })
}

interface Seeing {
  delays: Delay[]
  journal: { missing: (nowMs: number, forMs?: number) => { sentAtMs: number }[] }
}

/** The delays of what was sent in this time, shortest first. The witness forgets them. */
function delaysOf(witness: Seeing, fromMs: number, toMs: number): Float64Array {
  const nowMs = performance.now()
  const isWithin = ({ sentAtMs }: { sentAtMs: number }): boolean => sentAtMs >= fromMs && sentAtMs < toMs
  const seen = witness.delays.splice(0).filter(isWithin)
  const unseen = witness.journal.missing(nowMs).filter(isWithin)
  return Float64Array.from([
    ...seen.map(({ tookMs }) => tookMs),
    ...unseen.map(({ sentAtMs }) => nowMs - sentAtMs),
  ]).toSorted()
}

function cpuOf({ relay, stream, directory, hostile }: Arena): Record<CountedProcess, number> {
  const { user, system } = process.cpuUsage()
  const witness = (user + system) / 1e6
  const [ofRelay, ofStream] = [relay.cpuSeconds(), stream.cpuSeconds()]
  const others = { directory: directory.cpuSeconds(), hostile: hostile.cpuSeconds(), witness }
  return { relay: ofRelay, stream: ofStream, ...others }
}

/** A process that was started again in between has counted from nothing. */
function coresSince(
  before: Record<CountedProcess, number>,
  after: Record<CountedProcess, number>,
  ms: number,
): Record<CountedProcess, number> {
  const cores = (name: CountedProcess): number =>
    (after[name] >= before[name] ? after[name] - before[name] : after[name]) / (ms / 1000)
  return {
    relay: cores('relay'),
    stream: cores('stream'),
    directory: cores('directory'),
    hostile: cores('hostile'),
    witness: cores('witness'),
  }
}

interface Ticks {
  all: number
  idle: number
}

function machineTicks(): Ticks {
  const fields = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(/\s+/).slice(1).map(Number)
  return { all: fields.reduce((sum, ticks) => sum + ticks, 0), idle: (fields[3] ?? 0) + (fields[4] ?? 0) }
}

function busySince(before: Ticks): number {
  const { all, idle } = machineTicks()
  return 1 - (idle - before.idle) / Math.max(1, all - before.all)
}
