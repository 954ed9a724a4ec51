/** A collection is added to a stream that runs behind a relay of three real PDSs with history, while accounts go on writing. */
import assert from 'node:assert/strict'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createStreamClient } from '@tributary/client/node'
import {
  eventually,
  sampleRecord,
  startNetwork,
  startProcess,
  type Account,
  type ServiceProcess,
} from '@tributary/testkit'
import { serviceEntry } from '../src/service-entry.ts'
import { sealArchive } from '../src/seal.ts'
import { runCli } from './run-cli.ts'

const [collection, board] = ['org.impact.collection', 'org.hyperboards.board']
const apiKey = 'backfill-test-key-0123456789'
const operatorToken = 'the-operator-token-of-this-test'

interface Coverage {
  hosts: { hostname: string; collections: { collection: string; status: string; reason?: string }[] }[]
}

test('an added collection brings in every earlier record of every PDS exactly once, and coverage says so', async () => {
  await using network = await startNetwork({ pds: 3 })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'backfill-'))
  const tokenFile = join(directory.path, 'token')
  await writeFile(tokenFile, operatorToken)
  const accounts: Account[] = []
  for (let n = 0; n < 6; n++) accounts.push(await network.createAccount({ pds: n % 3 }))
  const write = async (account: Account, name: string, nsid = board): Promise<void> =>
    void (await account.create(nsid, sampleRecord(nsid, { note: name }), name))
  for (const account of accounts) {
    for (const name of ['kept-1', 'kept-2', 'changed', 'deleted', 'later']) await write(account, name)
    await account.put(board, 'changed', sampleRecord(board, { note: 'again' }))
    await account.delete(board, 'deleted')
    await write(account, 'watched', collection)
  }

  const start = (name: 'relay' | 'stream', settings: Record<string, string>): Promise<ServiceProcess> => {
    const common = {
      PORT: '0',
      PLC_URL: network.plcUrl,
      ALLOWED_PRIVATE_HOSTS: 'localhost',
      LOG_LEVEL: 'warn',
      DATA_DIRECTORY: join(directory.path, name),
    }
    const env = Object.entries({ ...common, ...settings }).map(([key, value]) => [
      `TRIBUTARY_${name.toUpperCase()}_${key}`,
      value,
    ])
    return startProcess(serviceEntry(name), { env: Object.fromEntries(env) as Record<string, string> }) // of texts
  }
  const relay = await start('relay', { SOURCES: network.pds.map(({ host }) => host).join(',') })
  const startStream = (): Promise<ServiceProcess> =>
    start('stream', {
      RELAY_URL: relay.url.replace('http', 'ws'),
      COLLECTIONS: collection,
      API_KEYS: `test:${apiKey}`,
      OPERATOR_TOKEN: tokenFile,
      BACKFILL_SETTLE_SECONDS: '15',
    })
  let stream = await startStream()
  const coverage = async (): Promise<Coverage> =>
    (await (await fetch(`${stream.url}/xrpc/network.social.stream.getCoverage`)).json()) as Coverage // by its lexicon
  const isComplete = async (name: string, hosts: number): Promise<boolean> => {
    const statuses = (await coverage()).hosts
      .flatMap((host) => host.collections)
      .filter((each) => each.collection === name)
    return statuses.length === 3 && statuses.filter(({ status }) => status === 'complete').length >= hosts
  }
  const client = () => createStreamClient({ url: stream.url, apiKey })
  /** Operations of each record of an account, in order. */
  const archived = async (): Promise<Map<string, string[]>> => {
    await sealArchive(stream.url, operatorToken)
    const operations = new Map<string, string[]>()
    for await (const { events } of client().snapshot())
      for (const event of events) {
        if (event.kind !== 'commit') continue
        const key = `${event.did} ${event.collection} ${event.rkey}`
        operations.set(key, [...(operations.get(key) ?? []), event.operation])
      }
    return operations
  }

  try {
    await eventually(() => isComplete(collection, 3), coverage)
    const away = network.pds[2]
    await away?.stop()
    const added = await runCli([
      'stream',
      'collections',
      'add',
      board,
      '--url',
      stream.url,
      '--operator-token-file',
      tokenFile,
    ])
    assert.equal(added.code, 0, added.stderr)
    // The accounts go on writing, and the stream is killed in the middle of it.
    const writing = (async () => {
      for (let n = 0; n < 10; n++)
        for (const account of accounts.filter(({ pds }) => pds !== away)) await write(account, `live-${n}`)
      for (const account of accounts.filter(({ pds }) => pds !== away))
        await account.put(board, 'later', sampleRecord(board, { note: 'later' }))
    })()
    await eventually(() => isComplete(board, 1), coverage)
    await stream.kill()
    stream = await startStream()
    await writing
    await eventually(() => isComplete(board, 2), coverage)
    assert.equal(await isComplete(board, 3), false)
    await away?.start()
    await eventually(() => isComplete(board, 3), coverage)

    const last = accounts[0]
    assert.ok(last)
    const expected = new Map<string, string[]>()
    for (const account of accounts) {
      const isAway = account.pds === away
      for (const each of [board, collection])
        for (const { uri } of await account.listRecords(each)) {
          const name = uri.split('/').at(-1) ?? ''
          // Whether the creation of a record that was changed meanwhile was read before the change is open.
          if (!isAway && name === 'later') continue
          expected.set(`${account.did} ${each} ${name}`, ['create'])
        }
    }
    const isThere = async (): Promise<boolean> => {
      const found = await archived()
      return [...expected.keys()].every((key) => found.has(key))
    }
    await eventually(isThere, async () => (await archived()).size)
    const found = await archived()
    for (const account of accounts.filter(({ pds }) => pds !== away)) {
      const key = `${account.did} ${board} later`
      const operations = found.get(key)
      assert.ok(['create update', 'update'].includes(operations?.join(' ') ?? ''), String(operations))
      found.delete(key)
    }
    assert.deepEqual(found, expected)
  } finally {
    await stream.stop()
    await relay.stop()
  }
})
