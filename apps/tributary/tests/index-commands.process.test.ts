import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { StreamEvent } from '@tributary/protocol'
import { SmallStream, startProcess, tidAt } from '@tributary/testkit'
import { serviceEntry } from '../src/service-entry.ts'
import { Commands, type Outcome } from './commands.ts'

const did = 'did:plc:aliceaaaaaaaaaaaaaaaaaaa'
const event = {
  kind: 'commit',
  operation: 'create',
  seq: 1,
  did,
  time: '2026-03-04T12:00:00.000000Z',
  rev: tidAt(1000),
  collection: 'org.impact.context.evaluation',
  rkey: 'one',
  cid: 'bafyreiaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
  record: { $type: 'org.impact.context.evaluation' },
} as unknown as StreamEvent // a valid one, whose strings have no types of their own here

test('an index is built again from the command line, and tells what it holds of an account', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-commands-'))
  await using commands = new Commands()
  const databasePath = join(directory.path, 'index.sqlite')
  const run = (...args: string[]): Promise<Outcome> =>
    commands.run(['index', ...args, '--database-path', databasePath])

  const early = await run('rebuild')
  assert.deepEqual([early.code, /there is no index database/.test(early.stderr)], [74, true])

  await using stream = await SmallStream.start([event])
  const settings = {
    PORT: '0',
    DATABASE_PATH: databasePath,
    STREAM_URL: stream.url,
    PLC_URL: 'http://127.0.0.1:1',
  }
  const env = Object.fromEntries(
    Object.entries(settings).map(([key, value]) => [`TRIBUTARY_INDEX_${key}`, value]),
  )
  await using index = await startProcess(serviceEntry('index'), { env })
  const rebuilt = await run('rebuild')
  assert.deepEqual([rebuilt.code, rebuilt.stdout], [0, 'the index is built again: generation 2\n'])
  assert.match(rebuilt.stderr, /^(waiting for the index|\[)/)
  const asked = await run('rebuild', '--no-wait', '--json')
  assert.deepEqual(JSON.parse(asked.stdout), { generation: 2, isDone: false })

  const account = await run('account', '--did', did)
  assert.deepEqual([account.code, account.stderr], [0, ''])
  assert.match(account.stdout, /^state +active, shown$/m)
  assert.match(account.stdout, /^entries +1 evaluation\.create$/m)
  const json = await run('account', '--did', did, '--json')
  assert.equal((JSON.parse(json.stdout) as { entries: unknown[] }).entries.length, 1) // as it is printed
  assert.equal((await run('account', '--did', 'alice')).code, 64)
  await index.stop()
})
