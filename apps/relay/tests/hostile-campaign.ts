/**
 * Relay and stream between honest hosts and hostile ones, which play strategies that are drawn from a seed, alone and
 * together. Held throughout are the promises A1 to A7 of the threat model; the figures come at the end.
 *
 *     npm run campaign -- hostile --seconds 60
 *     npm run campaign -- hostile --seed 4242
 *     npm run campaign -- hostile --strategy pings --strategy grammar --seconds 20
 *     npm run campaign -- hostile --alone --seconds 300
 *
 * What is played, and in which order, follows from the seed, which is a new one each time unless it is given. Strategies
 * that are named are played together, unless each is to be `--alone`. `--delay-ms` is how much longer than without hostile
 * ones the events of honest hosts may take. `--profile DIRECTORY` leaves CPU profiles of relay
 * and stream there.
 *
 * Two cores are enough when nothing else uses them. The hostile processes run at a lower priority than the services,
 * because who shares a machine with an attacker learns nothing of isolation. A process that does nothing and writes a
 * little to the disk runs beside them: what it has to wait for is taken from the delays, and shown. What the thread of a
 * service waits for a core is taken from its turns. An act whose delays or turns are over a bar is played again at once,
 * and broke the promise when they are over it again: a machine that is shared has slow moments of its own. When they are
 * not, the delays of the first playing count in no figure of the whole, and its longest turn is still shown. Acts that
 * kill a service are apart from the others in these figures, because it is away for as long as its start takes.
 * Where others use the machine, and Linux groups processes by session, `nice` does not reach them: the priority of a
 * session is written to `/proc/PID/autogroup` of one of its processes.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { percentile } from '@tributary/testkit'
import { Arena } from './hostile/arena.ts'
import {
  bars,
  breachesOfAll,
  isKilling,
  memoryOver,
  playAct,
  timesOver,
  type Act,
  type Figures,
} from './hostile/act.ts'
import { plan } from './hostile/plan.ts'
import { strategies } from './hostile/strategies/index.ts'
import type { Breach } from './hostile/witness.ts'

const honestPerSecond = 50
const quietMs = 8000
const shownPerAct = 6
/** How long what is on its way may still take at the end. */
const lastSettleMs = 15_000
const whatShown = 4000

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    'act-seconds': { type: 'string', default: '5' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 32) },
    strategy: { type: 'string', multiple: true, default: [] },
    profile: { type: 'string' },
    alone: { type: 'boolean', default: false },
    'delay-ms': { type: 'string', default: String(bars.delayMs) },
  },
})
bars.delayMs = Number(values['delay-ms'])
const seed = Number(values.seed)
const seconds = Number(values.seconds)
const actMs = Number(values['act-seconds']) * 1000
for (const name of values.strategy) {
  if (name in strategies) continue
  console.error(`there is no strategy ${name}; there are ${Object.keys(strategies).join(', ')}`)
  process.exit(64)
}

/** What broke, by the act in which it did. */
const broken: { act: Act; breaches: Breach[] }[] = []
interface Playing {
  act: Act
  figures: Figures
}
const played: Playing[] = []
let base: Figures | undefined
/** Playings whose times were over a bar, of acts whose times were not when they were played again. */
const slowOnce = new Set<Playing>()
const events = { relay: 0, stream: 0, made: 0, hints: 0 }
console.log(`hostile campaign: seed ${seed}, ${seconds} s`)
await campaign()
summarize()

async function campaign(): Promise<void> {
  const acts = plan({ seed, actMs, named: values.strategy, isAlone: values.alone })
  const endMs = performance.now() + seconds * 1000
  let isOver = false
  /** The playing before, when its times were over a bar for the first time. */
  let slow: Playing | undefined
  for (let round = 0; !isOver; round++) {
    const breaches: Breach[] = []
    const arena = await Arena.open({
      seed: seed + round,
      profileDirectory: values.profile,
      onBreach: (breach) => breaches.push(breach),
    })
    arena.honest.play(honestPerSecond)
    await arena.settle(10_000)
    if (!base) {
      await sleep(quietMs / 4)
      base = await playQuietly(arena, breaches)
    }
    for (let isHealthy = true; isHealthy && !isOver;) {
      const again = slow
      const act = again?.act ?? acts.next().value
      const { figures, counts, ...state } = await playAct(arena, act, breaches)
      isHealthy = state.isHealthy
      const unseen = await arena.leaving.look(arena.relay)
      if (unseen) breaches.push(unseen)
      const over = timesOver(figures, act, base)
      const playing: Playing = { act, figures }
      slow = over.length > 0 && !again ? playing : undefined
      isOver = performance.now() >= endMs && !slow
      played.push(playing)
      report(act, figures, counts, [...breaches.splice(0), ...memoryOver(figures), ...(again ? over : [])])
      if (slow) sayPlayedAgain(over)
      if (again && over.length === 0) slowOnce.add(again)
      // What is found when everything is stopped belongs to the last act.
      if (isHealthy && !isOver) continue
      arena.honest.pause()
      await end(arena, act, breaches)
    }
  }
}

/** The figures without hostile hosts. */
async function playQuietly(arena: Arena, breaches: Breach[]): Promise<Figures> {
  const quiet: Act = { names: [], seed, ms: quietMs }
  const first = (await playAct(arena, quiet, breaches)).figures
  const over = timesOver(first, quiet)
  const figures = over.length > 0 ? (await playAct(arena, quiet, breaches)).figures : first
  if (over.length > 0) {
    report(quiet, first, {}, [])
    sayPlayedAgain(over)
  }
  report(quiet, figures, {}, [...breaches.splice(0), ...memoryOver(figures), ...timesOver(figures, quiet)])
  return figures
}

/** Stops everything, and says what was lost. */
async function end(arena: Arena, act: Act, breaches: Breach[]): Promise<void> {
  const { relayWitness, streamWitness } = arena
  await arena.settle(lastSettleMs)
  const lost = arena.missing()
  for (const name of ['relay', 'stream', 'framings'] as const) {
    if (lost[name] === 0) continue
    const what = `${name}: ${lost[name]} events of honest hosts never came: ${arena.describeMissing(name)}`
    breaches.push({ promise: 'A2', what })
  }
  events.relay += relayWitness.findings['as-sent']
  events.stream += streamWitness.findings['as-sent']
  events.made += relayWitness.findings['made-up-for']
  events.hints += relayWitness.findings.hint
  await arena[Symbol.asyncDispose]()
  if (breaches.length > 0) note(act, breaches.splice(0))
}

function report(act: Act, figures: Figures, counts: Record<string, number>, breaches: Breach[]): void {
  const { delays, turnMs, syncsMs, memoryBytes, cores, busy } = figures
  const quantiles = (sorted: Float64Array): string =>
    [0.5, 0.99].map((share) => percentile(sorted, share).toFixed(0)).join(' ')
  const pair = (of: { relay: number; stream: number }, scale: number, digits = 0): string =>
    `${(of.relay / scale).toFixed(digits)}/${(of.stream / scale).toFixed(digits)}`
  console.log(
    `${act.names.join(' + ') || 'nobody hostile'}: delay p50 p99 ${quantiles(delays.relay)}/${quantiles(delays.stream)} ms, turn ${pair(turnMs, 1)} ms (bystander ${turnMs.bystander.toFixed(0)}, sync p99 ${percentile(syncsMs, 0.99).toFixed(0)}), ${pair(memoryBytes, 1e6)} MB, cores ${describeCores(cores)}, machine ${(busy * 100).toFixed(0)} % busy; ${describe(counts)}`,
  )
  if (breaches.length > 0) note(act, breaches)
}

function sayPlayedAgain(over: Breach[]): void {
  for (const { what } of over) console.log(`  over the bar, played again: ${what}`)
}

/** Prints breaches, equal ones once, and keeps them. */
function note(act: Act, breaches: Breach[]): void {
  broken.push({ act, breaches })
  const kinds = Map.groupBy(breaches, ({ promise, what }) => `${promise} ${kindOf(what)}`)
  for (const [, [first, ...others]] of [...kinds].slice(0, shownPerAct)) {
    const more = others.length > 0 ? ` (and ${others.length} like it)` : ''
    console.log(`  BREACH ${first?.promise} ${first?.what.slice(0, whatShown)}${more}`)
  }
  const options = [...act.names.map((name) => `--strategy ${name}`), `--seed ${act.seed}`]
  if (act.names.length > 0)
    console.log(`  to play it again: npm run campaign -- hostile ${options.join(' ')}`)
  if (kinds.size > shownPerAct) console.log(`  … and ${kinds.size - shownPerAct} other kinds`)
}

/** What two breaches have in common that differ in numbers and names only. */
function kindOf(what: string): string {
  return what.replaceAll(/did:[a-z]+:[a-z0-9:%.]+|[0-9a-z]{13}\b|\d+/g, '').slice(0, 60)
}

function describeCores(cores: Figures['cores']): string {
  return Object.entries(cores)
    .map(([name, used]) => `${name} ${used.toFixed(2)}`)
    .join(' ')
}

function describe(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([what, count]) => `${count} ${what.replace(/^[^:]*: /, '')}`)
    .join(', ')
}

function summarize(): void {
  const all = played.map(({ figures }) => figures)
  const most = (pick: (figures: Figures) => number): string => Math.max(0, ...all.map(pick)).toFixed(0)
  const p99 = (name: 'relay' | 'stream', of: readonly Figures[]): number =>
    percentile(Float64Array.from(of.flatMap(({ delays }) => [...delays[name]])).toSorted(), 0.99)
  const counted = played.filter((playing) => !slowOnce.has(playing))
  const [killing, others] = [true, false].map((kills) =>
    counted.filter(({ act }) => isKilling(act) === kills).map(({ figures }) => figures),
  ) as [Figures[], Figures[]] // of two
  const delays = (name: 'relay' | 'stream'): string => {
    const quietMs = p99(name, base ? [base] : [])
    const parts = [`${quietMs.toFixed(1)} ms without hostile ones`]
    if (others.length > 0) {
      const ms = p99(name, others)
      const more = (ms - quietMs).toFixed(1)
      parts.push(`${ms.toFixed(1)} ms with them (${more} ms more, the bar is ${bars.delayMs})`)
    }
    if (killing.length > 0) parts.push(`${p99(name, killing).toFixed(1)} ms where a service was killed`)
    return parts.join(', ')
  }
  console.log(`
seed ${seed}: ${all.length} acts, ${events.relay} events of honest hosts through the relay and ${events.stream} rows through the stream as they were sent, ${events.made} made up for, ${events.hints} hints of others about them
delay of honest hosts p99 over ${others.length} acts, and apart from them ${killing.length} in which a service was killed:
  relay ${delays('relay')}
  stream ${delays('stream')}
longest turn: relay ${most((f) => f.turnMs.relay)} ms, stream ${most((f) => f.turnMs.stream)} ms, a bystander's ${most((f) => f.turnMs.bystander)} ms; memory: relay ${most((f) => f.memoryBytes.relay / 1e6)} MB, stream ${most((f) => f.memoryBytes.stream / 1e6)} MB`)
  if (slowOnce.size > 0)
    console.log(
      `${slowOnce.size} acts were over a bar of time, and were not when played again; their first delays are not counted above`,
    )
  const whole: Act = { names: ['all acts together'], seed, ms: 0 }
  if (base && values.strategy.length === 0)
    broken.push({ act: whole, breaches: breachesOfAll(counted, base) })
  const found = broken.flatMap(({ act, breaches }) => breaches.map((breach) => ({ ...breach, act })))
  for (const { what } of found.filter(({ act }) => act === whole)) console.log(`  BREACH A2 ${what}`)
  const promises = Map.groupBy(found, ({ promise }) => promise)
  for (const [promise, breaches] of [...promises].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const acts = new Set(breaches.map(({ act }) => act.names.join(' + ') || 'nobody hostile'))
    console.log(`${promise} broken ${breaches.length} times, in: ${[...acts].join('; ')}`)
  }
  if (found.length === 0) console.log('every promise held')
  else {
    console.log(`to play all of it again: npm run campaign -- hostile --seconds ${seconds} --seed ${seed}`)
    process.exitCode = 1
  }
}
