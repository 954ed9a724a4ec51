import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { CheckedTrees } from '@tributary/repo-verify'
import { startPlc, startScriptedHost } from '@tributary/testkit'
import { startIngest } from './start-ingest.ts'

test('of a repository that was checked before only what a commit changes is checked again', async (t) => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(`${tmpdir()}/checked-trees-`)
  const has = t.mock.method(CheckedTrees.prototype, 'has')
  await using ingest = await startIngest({ directory: directory.path, relayUrl: host.url, plcUrl: plc.url })
  const account = await host.createAccount({ announce: false })
  for (const rkey of ['a', 'b', 'c']) account.create('app.attested.graph.follow', {}, rkey)
  await ingest.until(() => ingest.rows.length === 3)
  assert.deepEqual(
    has.mock.calls.map(({ result }) => result),
    [false, true, true],
  )
})
