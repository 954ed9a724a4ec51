import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { serveLoad, startCountReader, startProcess } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { fillRelay } from '../lib/fill.ts'
import { allSeen, usageOf } from '../lib/measure.ts'
import { profileOptions, firehoseUrl, startRelay } from '../lib/services.ts'

/** A relay's log from its first event to one consumer, beside its files as they are through a plain socket. */
export async function replay(bench: Bench): Promise<Figure[]> {
  const { commits: count } = bench.load.parameters
  const directory = bench.newDirectory('relay')
  await using host = await serveLoad({ file: bench.loadFile })
  await using relay = await startRelay(bench, host, { DATA_DIRECTORY: directory })
  const url = firehoseUrl(relay, 0)
  await fillRelay(bench, host, relay)
  bench.say('replay')
  let bytes = 0
  const ours = await usageOf(relay, async () => {
    await using reader = await startCountReader({ url })
    await allSeen(reader, count, relay)
    bytes = (await reader.report()).bytes
  })
  bench.say('the same files through a socket')
  const files = logFiles(directory)
  const entry = fileURLToPath(new URL('../file-sender.ts', import.meta.url))
  const options = { args: [JSON.stringify(files)], nodeOptions: profileOptions(bench) }
  await using sender = await startProcess(entry, options)
  let fileBytes = 0
  const plain = await usageOf(sender, async () => {
    fileBytes = await drain(Number(new URL(sender.url).port))
  })
  const plainName = 'its files as they are through a socket, this run'
  return [
    {
      name: 'replay to one consumer, by the clock',
      value: bytes / 1e6 / ours.seconds,
      unit: 'MB/s',
      better: 'higher',
      references: [{ name: plainName, value: fileBytes / 1e6 / plain.seconds }],
      note: `${count} events, ${(bytes / 1e6).toFixed(0)} MB, from the system's page cache; the start of the reader counts`,
    },
    {
      name: 'replay to one consumer, per CPU second',
      value: bytes / 1e6 / ours.cpuSeconds,
      unit: 'MB/s',
      better: 'higher',
      references: [{ name: plainName, value: fileBytes / 1e6 / plain.cpuSeconds }],
    },
  ]
}

/** The files of a relay's log that hold events. */
function logFiles(dataDirectory: string): string[] {
  const directory = join(dataDirectory, 'log')
  const names = readdirSync(directory).filter((name) => name.endsWith('.tlog'))
  return names.toSorted().map((name) => join(directory, name))
}

/** Reads a connection to its end. Returns the bytes. */
async function drain(port: number): Promise<number> {
  const socket = connect({ port, host: '127.0.0.1' })
  let bytes = 0
  socket.on('data', (data) => (bytes += data.length))
  await once(socket, 'close')
  return bytes
}
