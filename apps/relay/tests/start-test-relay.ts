import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger } from '@tributary/telemetry'
import { startRelay, type RelayService, type RelaySettings } from '../src/index.ts'

/** Opens the operator API of every test relay. */
export const operatorToken = 'the-operator-token-of-tests'

export interface TestRelay extends AsyncDisposable {
  url: string
  dataDirectory: string
  accounts: RelayService['accounts']
  /** How often an event was refused for a reason, as the metrics say. */
  refused: (reason: string) => Promise<number>
  /** How often an event of a kind said what was known already. */
  repeated: (kind: string) => Promise<number>
}

/** A relay in this process on a free port, in a directory that goes with it. */
export async function startTestRelay(
  settings: Pick<RelaySettings, 'plcUrl' | 'sources'> & Partial<RelaySettings>,
  { nowMs = Date.now }: { nowMs?: () => number } = {},
): Promise<TestRelay> {
  const dataDirectory = settings.dataDirectory ?? mkdtempSync(join(tmpdir(), 'relay-'))
  const relay = await startRelay(
    {
      port: 0,
      host: '127.0.0.1',
      dataDirectory,
      allowedPrivateHosts: settings.sources,
      validation: 'strict',
      logVisible: 'durable',
      logRetentionHours: 72,
      logRetentionBytes: 0,
      logFloorSeq: 1,
      rebuildState: false,
      workers: 2,
      identityWaitSeconds: 3600,
      consumerLagMax: 0,
      consumersMax: 10_000,
      consumersPerAddressMax: 1000,
      operatorToken,
      admission: 'approved',
      crawlRequests: 'on',
      accountQuota: 100,
      newSourcesPerDay: 50,
      sourceEventsPerSecond: 500,
      sourceEventsPerHour: 0,
      sourceEventsPerDay: 0,
      eventsPerSecond: 1_000_000,
      trustedHosts: [],
      diskFreeMbMin: 0,
      trustedProxies: [],
      logLevel: 'silent',
      ...settings,
    },
    { logger: createLogger('relay', { level: 'silent' }), nowMs },
  )
  const metric = async (name: string, label: string): Promise<number> => {
    const text = await (await fetch(`${relay.address}/metrics`)).text()
    const line = text.split('\n').find((each) => each.startsWith(name) && each.includes(`"${label}"`))
    return Number(line?.split(' ').at(-1) ?? 0)
  }
  return {
    url: relay.address,
    dataDirectory,
    accounts: relay.accounts,
    refused: async (reason) => await metric('relay_events_refused_total', reason),
    repeated: async (kind) => await metric('relay_events_repeated_total', kind),
    async [Symbol.asyncDispose]() {
      await relay[Symbol.asyncDispose]()
      if (!settings.dataDirectory) rmSync(dataDirectory, { recursive: true, force: true })
    },
  }
}
