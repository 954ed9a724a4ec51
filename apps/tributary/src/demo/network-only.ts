/** The demo with `--network-only`: a network with accounts and records, for services that are started by hand. */
import { once } from 'node:events'
import type { Network } from '@tributary/testkit'
import { createCast } from './cast.ts'
import { accountLines, networkLines, writeLines } from './network-lines.ts'
import { writeStory } from './story.ts'
import type { Testkit } from './testkit.ts'

/** Runs until `stop` aborts. Returns the exit code. */
export async function runNetworkOnly(testkit: Testkit, network: Network, stop: AbortSignal): Promise<number> {
  process.stdout.write('creating accounts and writing the first records\n')
  const cast = await createCast(network)
  if (stop.aborted) return 0
  await writeStory(cast, testkit)
  process.stdout.write(`
${networkLines(network)}

${accountLines(cast)}

To run the services on it, in another terminal:
  ${startLine(network)}

${writeLines(cast, testkit)}

Nothing else writes. Ctrl-C ends the network.
`)
  if (!stop.aborted) await once(stop, 'abort')
  return 0
}

function startLine({ plcUrl, pds, labeler }: Network): string {
  const handleHosts = pds.map(({ handleDomain, url }) => `${handleDomain.slice(1)}=${url}`)
  const settings = {
    'data-directory': '$(mktemp -d)/data',
    'plc-url': plcUrl,
    sources: pds.map(({ host }) => host).join(),
    labelers: labeler.did,
    'handle-hosts': handleHosts.join(),
  }
  const flags = Object.entries(settings).map(([name, value]) => `--${name} ${value}`)
  return `npm start -- --dev ${flags.join(' ')}`
}
