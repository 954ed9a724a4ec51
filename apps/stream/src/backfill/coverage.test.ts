import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { WatchedCollections } from '../policy/watched-collections.ts'
import { openStateDatabase } from '../state-database.ts'
import { BackfillStore } from './backfill-store.ts'
import { Coverage } from './coverage.ts'

test('a page has so many rows at most, one PDS at least, and the pages together have all', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'coverage-'))
  const database = openStateDatabase(join(directory.path, 'state.sqlite'))
  const store = new BackfillStore(database)
  const all = Array.from({ length: 1000 }, (_, n) => `pds${String(n).padStart(4, '0')}.example.com`)
  store.addHosts(all, 1)
  for (const [count, hostsMax] of [
    [100, 25],
    [1, 1000],
    [5000, 1],
    [0, 1000],
  ] as const) {
    const list = Array.from({ length: count }, (_, n) => ({ collection: `org.c${n}`, addedRevision: 1 }))
    const watched = { list: () => list, revision: 1 } as unknown as WatchedCollections // as far as it is looked at
    const coverage = new Coverage({
      store,
      backfill: { hostListing: { is: 'known' }, errorOf: () => undefined } as never, // as far as it is looked at
      watched,
      states: { markedCount: () => 0 },
      headSeq: () => 0,
    })
    const expected = count === 5000 ? all.slice(0, 3) : all
    const seen: string[] = []
    for (let after: string | undefined = ''; after !== undefined && seen.length < expected.length;) {
      const { hosts, cursor } = await coverage.page(after, 1000)
      assert.ok(hosts.length > 0 && hosts.length <= hostsMax, `${hosts.length} hosts`)
      assert.ok(hosts.every(({ collections }) => collections.length === count))
      seen.push(...hosts.map(({ hostname }) => hostname))
      assert.equal(cursor === undefined, seen.length === all.length)
      after = cursor
    }
    assert.deepEqual(seen, expected)
  }
  database.close()
})

test('nothing is complete while the relay is asked which accounts are gone', async () => {
  const database = openStateDatabase(':memory:')
  const store = new BackfillStore(database)
  store.addHosts(['pds.example.com'], 1)
  const [id = 0] = store.begin({ cause: 'operator', collection: '', revision: 1 }, 0)
  store.setState(id, 'done', 1, 5)
  const list = [{ collection: 'org.a', addedRevision: 1 }]
  const backfill = {
    hostListing: { is: 'known' },
    errorOf: () => undefined,
    accountsReason: 'asked' as string | undefined,
  }
  const coverage = new Coverage({
    store,
    backfill: backfill as never, // as far as it is looked at
    watched: { list: () => list, revision: 1 } as unknown as WatchedCollections, // likewise
    states: { markedCount: () => 0 },
    headSeq: () => 7,
  })
  const covered = async (): Promise<unknown> => (await coverage.page('', 10)).hosts[0]?.collections
  assert.deepEqual(await covered(), [{ collection: 'org.a', status: 'unknown', reason: 'asked' }])
  backfill.accountsReason = undefined
  assert.deepEqual(await covered(), [{ collection: 'org.a', status: 'complete', completeAtSeq: 5 }])
  database.close()
})
