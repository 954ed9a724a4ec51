import assert from 'node:assert/strict'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { watchedCollections } from '@tributary/protocol'
import { toEnvironment } from '@tributary/settings'
import { parseSegment, type Row } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import {
  type Account,
  freePort,
  type JournalEntry,
  sampleRecord,
  sampleRkey,
  type ServiceProcess,
  startNetwork,
  startProcess,
} from '@tributary/testkit'
import { type StreamSettings, streamSettings } from '../src/index.ts'
import type { StreamMessage } from './event-reader.ts'
import { Resuming } from './resuming.ts'

const entry = new URL('../src/main.ts', import.meta.url).pathname
const apiKey = 'kill-test-key-0123456789'
const operatorToken = 'kill-test-operator'
const unwatched = 'app.unwatched.thing'

/** What consumers must see of an account: its writes on watched collections, in order. */
function wanted(account: Account): JournalEntry[] {
  return account.journal.filter(({ collection }) => collection !== unwatched)
}

function asJournal({ operation: action, collection, rkey, cid }: StreamMessage): JournalEntry {
  const entry = { action, collection, rkey, ...(cid === undefined ? {} : { cid }) }
  return entry as JournalEntry // compared with what was written
}

/** A create, an update and a delete on every watched collection, and records that the stream does not keep. */
async function write(account: Account): Promise<void> {
  for (const collection of watchedCollections) {
    const rkey = sampleRkey(collection) ?? 'r1'
    await account.create(collection, sampleRecord(collection), rkey)
    await account.create(unwatched, { about: collection })
    await account.put(collection, rkey, sampleRecord(collection, { note: 'changed' }))
    await account.delete(collection, rkey)
  }
}

/** Every row of the archive, after everything there is has been sealed. */
async function sealAndDownload(url: string): Promise<Row[]> {
  const call = async (path: string, token: string, method = 'GET'): Promise<Response> => {
    const headers = { Authorization: `Bearer ${token}` }
    return fetch(`${url}/xrpc/network.social.stream.${path}`, { method, headers })
  }
  await call('admin.sealSegment', operatorToken, 'POST')
  const list = await (await call('listSegments', apiKey)).json()
  const rows: Row[] = []
  for (const { name } of (list as { segments: { name: string }[] }).segments) {
    // by its lexicon
    const response = await call(`getSegment?name=${name}`, apiKey)
    const segment = parseSegment(new Uint8Array(await response.arrayBuffer()), nodeDecompress)
    for (let i = 0; i < segment.blocks.length; i++) rows.push(...segment.readBlock(i).rows())
  }
  return rows
}

/** A stream process that can be killed and started again on the same data and port. */
async function prepareStream(
  directory: string,
  settings: Partial<StreamSettings>,
): Promise<() => Promise<ServiceProcess>> {
  const tokenFile = join(directory, 'operator-token')
  await writeFile(tokenFile, operatorToken)
  const common = { port: await freePort(), dataDirectory: join(directory, 'data'), logLevel: 'warn' } as const
  const env = {
    ...toEnvironment(streamSettings, { ...common, ...settings }),
    TRIBUTARY_STREAM_OPERATOR_TOKEN: tokenFile,
  }
  return () => startProcess(entry, { env })
}

test('killed again and again while a real PDS is written to, the stream loses, repeats and reorders nothing', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'stream-kill-'))
  await using network = await startNetwork({ pds: 1 })
  const start = await prepareStream(directory.path, {
    relayUrl: network.pds[0]?.url.replace('http', 'ws') ?? '',
    plcUrl: network.plcUrl,
    verify: 'full',
    apiKeys: [`test:${apiKey}`],
  })
  const accounts = [await network.createAccount(), await network.createAccount()]
  const consumer = new Resuming()
  const writing = Promise.all(accounts.map(write))
  for (const events of [20, 50, 90]) {
    await using stream = await start()
    await consumer.read(stream.url, () => consumer.events.size >= events)
    await stream.kill()
  }
  await using stream = await start()
  await writing
  await consumer.read(stream.url, () =>
    accounts.every((account) => consumer.commitsOf(account.did).length >= wanted(account).length),
  )
  for (const account of accounts) {
    assert.deepEqual(consumer.commitsOf(account.did).map(asJournal), wanted(account))
  }
  const archived = await sealAndDownload(stream.url)
  assert.deepEqual(
    archived.map(({ seq, did, rkey }) => [seq, did, rkey]),
    [...consumer.events.values()].map(({ seq, did, rkey = '' }) => [seq, did, rkey]),
  )
})
