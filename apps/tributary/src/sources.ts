import { exitCodeOf } from './exit-codes.ts'
import { printJson } from './print-json.ts'
import { listHosts, type RelayHost } from './relay-hosts.ts'

/** Prints the sources of a relay, one a line. Returns the exit code. */
export async function printSources({ url, json }: { url: string; json: boolean }): Promise<number> {
  let hosts: RelayHost[]
  try {
    hosts = await listHosts(url, AbortSignal.timeout(10_000))
  } catch (error) {
    process.stderr.write(`tributary sources: ${error instanceof Error ? error.message : String(error)}\n`)
    return exitCodeOf(error)
  }
  if (json) {
    printJson(hosts)
    return 0
  }
  for (const { hostname, status = '', accountCount = 0, seq = 0 } of hosts) {
    process.stdout.write(`${hostname.padEnd(40)} ${status.padEnd(10)} ${accountCount} accounts, seq ${seq}\n`)
  }
  if (hosts.length === 0)
    process.stdout.write('no sources: give some to the relay with its setting sources\n')
  return 0
}
