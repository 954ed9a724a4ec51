import type { LoadHost, ServiceProcess } from '@tributary/testkit'
import type { Bench } from './bench.ts'
import { takeIn } from './measure.ts'
import { firehoseUrl, startRelay } from './services.ts'

/** A relay with the whole load in its log. Not profiled: it is not what is measured. */
export async function fillRelay(bench: Bench, host: LoadHost): Promise<ServiceProcess> {
  bench.say('filling the relay')
  const relay = await startRelay({ ...bench, profileDirectory: undefined }, host)
  const { commits: count } = bench.load.parameters
  await takeIn({ host, process: relay, url: firehoseUrl(relay, 0), count, messages: count })
  return relay
}
