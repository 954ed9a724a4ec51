import type { LoadHost, ServiceProcess } from '@tributary/testkit'
import type { Bench } from './bench.ts'
import { introduce, takeIn } from './measure.ts'
import { firehoseUrl, startRelay } from './services.ts'

/** A relay with the whole load in its log. Not profiled: it is not what is measured. */
export async function startFilledRelay(bench: Bench, host: LoadHost): Promise<ServiceProcess> {
  const relay = await startRelay({ ...bench, profileDirectory: undefined }, host)
  await fillRelay(bench, host, relay)
  return relay
}

/** Gives a new relay the whole load. */
export async function fillRelay(bench: Bench, host: LoadHost, relay: ServiceProcess): Promise<void> {
  bench.say('filling the relay')
  const url = firehoseUrl(relay)
  const from = await introduce({ host, process: relay, url })
  const count = bench.load.parameters.commits - from
  await takeIn({ host, process: relay, url, count, messages: count })
}
