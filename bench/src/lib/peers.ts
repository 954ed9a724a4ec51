/**
 * What other programs cost: measured in November 2026 on a 2-core virtual machine, each alone, on the same recorded
 * load as here. Fan-out figures are less the CPU of the same ingest without a reader.
 */
import type { Reference } from './figure.ts'

/** Microseconds of CPU that one K-256 verification took on that machine. */
const k256MicrosThere = 40

const ownBefore = 'this relay on 22 November 2026 (dcd9fc6)'
const goRelay = 'Go relay (indigo, August 2026)'
const rainbow = 'rainbow (August 2026)'
const jetstream = 'Jetstream v2 (August 2026)'

type Value = Reference['value']
const of =
  (name: string) =>
  (value: Value): Reference => ({ name, value })
const byOwnBefore = of(ownBefore)
const byGoRelay = of(goRelay)
const byRainbow = of(rainbow)
const byJetstream = of(jetstream)

/** By figure; fan-out by number of readers, in CPU seconds per million deliveries at 400 events a second. */
export const peers = {
  relayCommitsPerCpuSecond: [byGoRelay([3400, 3800]), byOwnBefore(9600)],
  relayCommitsByClock: [byGoRelay(3570), byOwnBefore(13_100)],
  streamEventsPerCpuSecond: [byJetstream(6300)],
  streamEventsByClock: [byJetstream(10_500)],
  /** Events a second of the fan-out figures. */
  fanoutRate: 400,
  relayFanout: new Map([
    [100, [byGoRelay(9.3), byRainbow([3, 9])]],
    [400, [byGoRelay(4.9), byRainbow([6, 7])]],
  ]),
  streamFanout: new Map([
    [100, [byJetstream(12.6)]],
    [400, [byJetstream(8)]],
    [1000, [byJetstream(8)]],
  ]),
  /** Milliseconds at 500 events a second. */
  relayDelay: [[goRelay, { p50: 53, p99: 107 }]],
  streamDelay: [[jetstream, { p50: 0.45, p99: 32 }]],
  chainDelay: [[`${goRelay} into ${jetstream}`, { p50: 60, p99: 109 }]],
  relayCores: [byGoRelay(0.27)],
  streamCores: [byJetstream(0.13)],
  /** Megabytes, and kilobytes per idle reader. */
  relayMemoryAtStart: [byGoRelay(30), byRainbow(25)],
  relayMemoryAfterLoad: [byGoRelay(58), byRainbow(42)],
  relayMemoryPerReader: [byGoRelay(25), byRainbow(37)],
  streamMemoryAtStart: [byJetstream(34)],
  streamMemoryAfterLoad: [byJetstream(280)],
  streamMemoryPerReader: [byJetstream(23)],
  /** Rows a second of a client that reads a local archive. */
  backfillByClock: [of(`its client, ${jetstream}`)([445_000, 583_000])],
  backfillPerCpuSecond: [of(`its client, ${jetstream}`)(612_000)],
  backfillMemory: [of(`its client, ${jetstream}`)([370, 410])],
  archiveBytesPerRow: [byJetstream([79, 90])],
  /** Milliseconds of one statement over 500 authors and a million rows, in SQLite. */
  feedStatement: [of('the bare statement over 500 authors, SQLite')([0.9, 2.4])],
} as const satisfies Record<string, unknown>

/**
 * Rates of verified commits, each followed by what it would be on a machine that differs from that one as a K-256
 * verification does, which is the largest part of what a commit costs.
 */
export function withScaled(rates: readonly Reference[], k256Micros: number): Reference[] {
  const factor = k256MicrosThere / k256Micros
  return rates.flatMap(({ name, value }) => {
    const scaled =
      typeof value === 'number' ? value * factor : ([value[0] * factor, value[1] * factor] as const)
    return [
      { name, value },
      { name: `${name}, scaled by K-256`, value: scaled },
    ]
  })
}
