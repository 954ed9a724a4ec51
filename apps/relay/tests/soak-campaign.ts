/**
 * A relay under many hosts and accounts for a while: its memory stays flat, no account's events change their order, and
 * none is lost. The commits are signed by a seeded generator before the relay starts. The seed is a new one each time.
 *
 *     node apps/relay/tests/soak-campaign.ts --seconds 60 --hosts 200 --accounts 10000 --rate 250 --seed 1
 *
 * A burst first lets the relay meet most of the accounts, for what it keeps of each is not growth.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createLoad, serveLoad, startProcess } from '@tributary/testkit'
import { OrderCheck } from './order-check.ts'

const entry = new URL('../src/main.ts', import.meta.url).pathname
const burst = { commits: 10_000, rate: 500 }
const sampleMs = 500
/** Of the memory in the last quarter to that in the second. */
const growthMax = 1.1
/** Small enough that files are finished and deleted meanwhile. */
const logBytes = 64_000_000
/** After the last event was emitted. */
const drainMs = 30_000

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    hosts: { type: 'string', default: '200' },
    accounts: { type: 'string', default: '10000' },
    rate: { type: 'string', default: '250' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 32) },
  },
})
const [seconds, hosts, accounts, rate, seed] = [
  values.seconds,
  values.hosts,
  values.accounts,
  values.rate,
  values.seed,
].map(Number) as [number, number, number, number, number] // as many as there are
const directory = mkdtempSync(join(tmpdir(), 'relay-soak-'))
console.log(`soak: seed ${seed}`)
try {
  await soak()
} finally {
  rmSync(directory, { recursive: true })
}

async function soak(): Promise<void> {
  const file = join(directory, 'load')
  const commits = burst.commits + Math.round(seconds * rate)
  const info = await createLoad({ file, accounts, commits, seed })
  await using load = await serveLoad({ file, hosts })
  const names = load.hosts.join(',')
  await using relay = await startProcess(entry, {
    env: {
      TRIBUTARY_RELAY_PORT: '0',
      TRIBUTARY_RELAY_DATA_DIRECTORY: join(directory, 'data'),
      TRIBUTARY_RELAY_PLC_URL: load.plcUrl,
      TRIBUTARY_RELAY_SOURCES: names,
      TRIBUTARY_RELAY_ALLOWED_PRIVATE_HOSTS: names,
      TRIBUTARY_RELAY_NEW_SOURCES_PER_DAY: String(hosts),
      TRIBUTARY_RELAY_ACCOUNT_QUOTA: String(Math.ceil(accounts / hosts)),
      TRIBUTARY_RELAY_LOG_RETENTION_BYTES: String(logBytes),
      TRIBUTARY_RELAY_LOG_LEVEL: 'warn',
    },
  })
  const order = new OrderCheck(relay.url, info)
  await load.play({ rate: burst.rate, count: burst.commits })
  await order.until(burst.commits, drainMs)

  const memory: number[] = []
  const sampling = setInterval(() => memory.push(relay.memoryBytes()), sampleMs)
  const cpuBefore = relay.cpuSeconds()
  await load.play({ rate })
  clearInterval(sampling)
  const cpuSeconds = relay.cpuSeconds() - cpuBefore
  await order.until(commits, drainMs)
  order.close()

  const second = median(quarter(memory, 1))
  const last = median(quarter(memory, 3))
  const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`
  console.log(
    `soak: ${hosts} hosts, ${accounts} accounts, ${commits} commits in ${seconds} s after a burst of ${burst.commits}: none lost, none out of order; memory ${mb(second)} in the second quarter, ${mb(last)} in the last; ${((100 * cpuSeconds) / seconds).toFixed(0)} % of a core`,
  )
  assert.equal(relay.stderr, '', 'the relay had nothing to warn of')
  assert.ok(last <= growthMax * second, `memory grew from ${mb(second)} to ${mb(last)}`)
}

function quarter(samples: readonly number[], index: number): number[] {
  const length = samples.length / 4
  return samples.slice(Math.floor(index * length), Math.floor((index + 1) * length))
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}
