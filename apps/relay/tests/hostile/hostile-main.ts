/** The process of the hostile hosts and of the hostile consumers. It plays the strategies that the campaign names. */
import { once } from 'node:events'
import { freePort, answerRequests, randomFrom, reportReady } from '@tributary/testkit'
import { HostileHost } from './hostile-host.ts'
import type { ActPlan, ActReport, HostileSettings } from './hostile-process.ts'
import type { Stage, Wish } from './stage.ts'
import { strategies } from './strategies/index.ts'

const settings = JSON.parse(process.argv[2] ?? '{}') as HostileSettings // as `hostile-process.ts` wrote it
const hosts: HostileHost[] = []
for (const address of settings.addresses) {
  const random = randomFrom(settings.seed + hosts.length)
  const host = new HostileHost({
    plcUrl: settings.directoryUrl,
    address,
    port: await freePort(),
    retainedEvents: 20_000,
    random,
  })
  await host.start()
  hosts.push(host)
}
/** Of what one act emitted, for a relay that comes back with an old position. */
const eventsKept = 500
let accountsKept = 0
let wishes = 0
const granted = new Map<number, () => void>()

answerRequests({
  hosts: () => hosts.map(({ host }) => host),
  prepare: async (accountsPerHost: number) => {
    accountsKept = accountsPerHost
    for (const host of hosts) for (let i = 0; i < accountsPerHost; i++) await host.createHostile()
  },
  comeBack: async () => {
    await Promise.all(hosts.map((host) => host.comeBack(settings.relayUrl)))
  },
  play,
  granted: (wish: number) => {
    granted.get(wish)?.()
    granted.delete(wish)
  },
})
// What a strategy throws in a callback would end all of them.
process.on('uncaughtException', (error) => process.stderr.write(`${error.stack}\n`))
reportReady('', () => process.exit(0))

async function play({ names, seed, ms, victims }: ActPlan): Promise<ActReport> {
  const counts: Record<string, number> = {}
  const over = new AbortController()
  setTimeout(() => over.abort(), ms)
  const faults: string[] = []
  const ended = once(over.signal, 'abort')
  await Promise.all(
    names.map(async (name, index) => {
      const strategy = strategies[name]
      if (!strategy) throw new Error(`there is no strategy ${name}`)
      const stage: Stage = {
        random: randomFrom(seed + 1000 * index),
        hosts,
        victims,
        relayUrl: settings.relayUrl,
        streamUrl: settings.streamUrl,
        signal: over.signal,
        count: (what, by = 1) => (counts[`${name}: ${what}`] = (counts[`${name}: ${what}`] ?? 0) + by),
        wish,
      }
      try {
        await strategy(stage)
      } catch (error) {
        faults.push(`${name}: ${String((error as Error).stack)}`)
      }
    }),
  )
  await ended
  for (const host of hosts) {
    host.answerHonestly()
    host.forgetThrough(host.lastSeq - eventsKept)
    // What one act left is not to weigh on the next.
    for (const did of [...host.accounts.keys()].slice(accountsKept)) host.accounts.delete(did)
  }
  return { counts, faults }
}

/** Asks the campaign for what only it can do. */
async function wish(what: Wish): Promise<void> {
  const number = ++wishes
  const done = new Promise<void>((resolve) => granted.set(number, resolve))
  process.send?.({ wish: what, number })
  await done
}
