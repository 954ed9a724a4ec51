import { fileURLToPath } from 'node:url'
import { startProcess, type LoadHost, type ServiceProcess } from '@tributary/testkit'
import type { Bench } from './bench.ts'
import { profileOptions } from './services.ts'
import type { StockSettings } from '../stock-relay.ts'

/** Starts the reference: the same work with stock parts, reading the first host of the load. */
export async function startStock(
  bench: Bench,
  host: LoadHost,
  { verifies, output }: Pick<StockSettings, 'verifies' | 'output'>,
): Promise<ServiceProcess> {
  const upstream = `ws://${host.hosts[0]}/xrpc/com.atproto.sync.subscribeRepos?cursor=0`
  const settings: StockSettings = { upstream, plcUrl: host.plcUrl, verifies, output }
  const entry = fileURLToPath(new URL('../stock-relay.ts', import.meta.url))
  return startProcess(entry, { args: [JSON.stringify(settings)], nodeOptions: profileOptions(bench) })
}
