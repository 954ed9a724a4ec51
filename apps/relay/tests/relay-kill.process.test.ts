import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort, startNetwork, startProcess, sampleRecord, type ServiceProcess } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'

const entry = new URL('../src/main.ts', import.meta.url).pathname

/** A relay process that can be killed and started again on the same data and port. */
async function prepareRelay(
  plcUrl: string,
  hosts: string[],
): Promise<{ start: () => Promise<ServiceProcess>; remove: () => void }> {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-'))
  const env = {
    TRIBUTARY_RELAY_PORT: String(await freePort()),
    TRIBUTARY_RELAY_DATA_DIRECTORY: dataDirectory,
    TRIBUTARY_RELAY_PLC_URL: plcUrl,
    TRIBUTARY_RELAY_SOURCES: hosts.join(','),
    TRIBUTARY_RELAY_ALLOWED_PRIVATE_HOSTS: hosts.join(','),
    TRIBUTARY_RELAY_LOG_LEVEL: 'warn',
  }
  return {
    start: () => startProcess(entry, { env }),
    remove: () => rmSync(dataDirectory, { recursive: true, force: true }),
  }
}

test(
  'killed while real PDSs write, the relay delivers every acknowledged write once it is back',
  { timeout: 120_000 },
  async () => {
    await using network = await startNetwork({ pds: 2 })
    const relay = await prepareRelay(
      network.plcUrl,
      network.pds.map(({ host }) => host),
    )
    const accounts = await Promise.all([0, 1].map((pds) => network.createAccount({ pds })))
    const write = async (count: number): Promise<void> => {
      await Promise.all(
        accounts.map(async (account) => {
          for (let i = 0; i < count; i++)
            await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
        }),
      )
    }
    const first = await relay.start()
    const writing = write(20)
    using before = new FirehoseReader(first.url, 0)
    await before.until(() => before.frames.length > 12)
    await first.kill()
    await writing
    await using second = await relay.start()
    using reader = new FirehoseReader(second.url, 0)
    await reader.until(() => accounts.every(({ did, journal }) => reader.opsOf(did).length >= journal.length))
    for (const { did, journal } of accounts) assert.deepEqual(reader.opsOf(did), journal)
    await second.stop()
    relay.remove()
  },
)
