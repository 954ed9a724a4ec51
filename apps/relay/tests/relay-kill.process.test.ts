import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  freePort,
  startNetwork,
  startPlc,
  startProcess,
  startScriptedHost,
  sampleRecord,
  type ServiceProcess,
} from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'

/** Events that may be written and not read: a slow machine must not make more of them to read at the end. */
const unreadMax = 2000

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

/** A consumer that resumes after every cut with the last seq it has, and remembers what it saw under each. */
class Resuming {
  readonly seen = new Map<number, Buffer>()
  readonly seqs: number[] = []

  take(reader: FirehoseReader): void {
    for (const [i, frame] of reader.frames.entries()) {
      const seq = frame.body['seq']
      const bytes = reader.messages[i]
      if (typeof seq !== 'number' || !bytes) continue
      assert.ok(seq > (this.seqs.at(-1) ?? 0), `seq ${seq} came after ${this.seqs.at(-1)}`)
      this.seqs.push(seq)
      this.seen.set(seq, bytes)
    }
  }

  get cursor(): number {
    return this.seqs.at(-1) ?? 0
  }
}

test(
  'killed at any moment in the middle of writes, the relay loses nothing, repeats nothing and uses no seq twice',
  { timeout: 120_000 },
  async () => {
    const plc = await startPlc()
    const hosts = await Promise.all(
      ['127.0.0.1', '127.0.0.5'].map((address) => startScriptedHost({ plcUrl: plc.url, address })),
    )
    const relay = await prepareRelay(
      plc.url,
      hosts.map(({ host }) => host),
    )
    const accounts = await Promise.all(
      hosts.flatMap((host) => Array.from({ length: 10 }, () => host.createAccount())),
    )
    const written = new Map<string, string[]>(accounts.map(({ did }) => [did, []]))
    const writer = new AbortController()
    const consumer = new Resuming()
    const emitted = () => hosts.reduce((sum, { lastSeq }) => sum + lastSeq, 0)
    const writing = (async () => {
      for (let i = 0; !writer.signal.aborted;) {
        await new Promise((resolve) => setTimeout(resolve, 5))
        for (const end = i + 5; i < end && emitted() < consumer.seqs.length + unreadMax; i++) {
          const account = accounts[i % accounts.length]
          if (!account) return
          account.create('org.impact.collection', { title: String(i) }, `r${i}`)
          written.get(account.did)?.push(`r${i}`)
          if (i % 53 === 0) account.announceIdentity()
        }
      }
    })()

    const opsSeen = new Map<string, string[]>(accounts.map(({ did }) => [did, []]))
    const take = (reader: FirehoseReader): void => {
      consumer.take(reader)
      for (const { did } of accounts) opsSeen.get(did)?.push(...reader.opsOf(did).map(({ rkey }) => rkey))
    }
    for (let round = 0; round < 6; round++) {
      const process = await relay.start()
      using reader = new FirehoseReader(process.url, consumer.cursor)
      // Each round is cut at another place: after some hundred more frames.
      await reader.until(() => reader.frames.length > 40 + round * 60)
      await process.kill()
      await reader.until(() => reader.closed !== undefined)
      take(reader)
    }
    writer.abort()
    await writing
    await using process = await relay.start()
    using reader = new FirehoseReader(process.url, consumer.cursor)
    const missing = () =>
      accounts.filter(
        ({ did }) =>
          (opsSeen.get(did)?.length ?? 0) + reader.opsOf(did).length < (written.get(did)?.length ?? 0),
      )
    await reader.until(() => missing().length === 0)
    take(reader)
    for (const { did } of accounts) assert.deepEqual(opsSeen.get(did), written.get(did))

    using replay = new FirehoseReader(process.url, 0)
    await replay.until(() => replay.seqs.length >= consumer.seqs.length)
    for (const [i, frame] of replay.frames.entries()) {
      const bytes = consumer.seen.get(Number(frame.body['seq']))
      if (bytes)
        assert.ok(replay.messages[i]?.equals(bytes), `seq ${String(frame.body['seq'])} was used twice`)
    }
    await Promise.all(hosts.map((host) => host.stop()))
    await plc.stop()
    await process.stop()
    relay.remove()
  },
)

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
