/** How often one repository is read again, whoever asks for that. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { HostRequests } from '../src/backfill/host-requests.ts'
import { RepoFill, rereadsPerDay } from '../src/backfill/repo-fill.ts'
import { RepoReader } from '../src/backfill/repo-reader.ts'
import { WatchedCollections } from '../src/policy/watched-collections.ts'
import { openStateDatabase } from '../src/state-database.ts'
import { startIngest } from './start-ingest.ts'

const follow = 'app.attested.graph.follow'

test('a repository that is marked again and again is read so often a day, and more often when the operator asks', async (t) => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'repo-fill-'))
  await using ingest = await startIngest({
    directory: directory.path,
    relayUrl: host.url,
    plcUrl: plc.url,
    saveMs: 10,
  })
  const allowedPrivateHosts = ['localhost']
  const stop = new AbortController()
  const { signal } = stop
  const reader = new RepoReader()
  t.after(() => reader.close())
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const options = {
    database,
    requests: new HostRequests({ allowedPrivateHosts, signal, paceOf: () => 1000 }),
    relayUrl: host.url,
    resolver: createResolver({ plcUrl: plc.url, allowedPrivateHosts }),
    reader,
    ingest: ingest.ingest,
    states: ingest.states,
    watched: new WatchedCollections(database, [follow], 1),
    signal,
  }
  let fill = new RepoFill(options)
  const [busy, other] = [await host.createAccount(), await host.createAccount()]
  for (const account of [busy, other]) account.create(follow, {}, 'a')
  await ingest.until(() => ingest.rows.length === 8)
  const readAgain = async ({ did }: { did: string }): Promise<string> => {
    ingest.states.mark(did)
    return (await fill.makeWhole({ did: did as Did, mayReplace: true, onWhole: () => {} })).is // of a real account
  }
  for (let n = 0; n < rereadsPerDay; n++) assert.equal(await readAgain(busy), 'whole')
  const asked = (): number => host.requests.filter((path) => path.includes('getRepo?')).length
  const before = asked()
  assert.deepEqual([await readAgain(busy), await readAgain(busy)], ['unavailable', 'unavailable'])
  assert.equal(asked(), before)
  assert.equal(ingest.states.get(busy.did)?.needsRefetch, true)
  assert.equal(await readAgain(other), 'whole')
  // The count is stored, so that a restart does not begin it again.
  const counted = database.prepare<[], number>('SELECT sum(count) FROM rereads').pluck()
  await eventually(() => counted.get() === rereadsPerDay + 1)
  fill = new RepoFill(options)
  assert.equal(await readAgain(busy), 'unavailable')
  fill.forgetRereads(busy.did)
  assert.equal(await readAgain(busy), 'whole')
})
