import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { openTestIndex } from '../../tests/open-test-index.ts'
import type { RowOf } from '../tables.ts'

const alice = 'did:plc:aliceaaaaaaaaaaaaaaaaaaa' as Did // valid by construction

function record(rkey: string, did = alice): RowOf<'records'> {
  return {
    uri: `at://${did}/org.impact.claim.activity/${rkey}`,
    did,
    collection: 'org.impact.claim.activity',
    cid: 'bafy',
    json: '{}',
    indexedAt: 1n,
    createdAt: null,
    feedTime: 253_402_300_799_999_999n,
  }
}

function rkeyOf({ uri }: RowOf<'records'>): string {
  return uri.split('/').at(-1) ?? ''
}

const account: RowOf<'accounts'> = {
  did: alice,
  status: 'deactivated',
  statusSeq: 1n,
  hostStatus: null,
  hidden: 1n,
  checkedAt: 0n,
  isAuthor: 1n,
}

async function all<T>(parts: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const part of parts) found.push(part)
  return found
}

test('rows come back as they were put, also a great many, and those that were removed do not', async () => {
  await using writer = await openTestIndex()
  const rows = Array.from({ length: 1203 }, (_, index) => record(String(index).padStart(4, '0')))
  const uris = rows.map(({ uri }) => uri)
  await writer.write((batch) => batch.put('records', rows))
  const inOrder = <T extends { uri: string }>(all: readonly T[]): T[] =>
    all.toSorted((a, b) => (a.uri < b.uri ? -1 : 1))
  assert.deepEqual(inOrder(await writer.write((batch) => batch.load('records', uris))), rows)
  await writer.write((batch) => batch.remove('records', uris.slice(1)))
  const left = await writer.write((batch) => batch.load('records', uris, ['uri', 'feedTime']))
  assert.deepEqual(left, [{ uri: uris[0], feedTime: 253_402_300_799_999_999n }])
})

test('a row with the key of another takes its place, and columns without a value are compared too', async () => {
  await using writer = await openTestIndex()
  await writer.write((batch) => batch.put('accounts', [account]))
  for (const hostStatus of ['active', null, 'deactivated']) {
    await writer.write((batch) => batch.put('accounts', [{ ...account, hostStatus }]))
    assert.deepEqual(await writer.write((batch) => batch.loadAll('accounts')), [{ ...account, hostStatus }])
  }
})

test('a label that is there already stays one row, whatever it lacks', async () => {
  await using writer = await openTestIndex()
  const label: RowOf<'labels'> = {
    src: alice,
    did: alice,
    uri: alice,
    cid: null,
    val: 'draft',
    neg: 0n,
    cts: 1n,
    exp: null,
  }
  await writer.write((batch) => batch.put('labels', [label, { ...label, exp: 5n }]))
  await writer.write((batch) => batch.put('labels', [label]))
  assert.equal((await writer.write((batch) => batch.loadAll('labels'))).length, 2)
})

test('of a transaction that fails nothing has happened, and the next one does not notice', async () => {
  await using writer = await openTestIndex()
  const failing = writer.write(async (batch) => {
    await batch.put('records', [record('a')])
    throw new RangeError('planted')
  })
  const next = writer.write((batch) => batch.put('records', [record('b')]))
  await assert.rejects(failing, RangeError)
  await next
  const rows = await writer.write((batch) => batch.loadAll('records'))
  assert.deepEqual(rows.map(rkeyOf), ['b'])
})

test('work that fails apart from the rest is taken back by itself', async () => {
  await using writer = await openTestIndex()
  await writer.write(async (batch) => {
    await batch.put('records', [record('a')])
    const apart = batch.savepoint(async () => {
      await batch.put('records', [record('b')])
      throw new RangeError('planted')
    })
    await assert.rejects(apart, RangeError)
    assert.equal(await batch.savepoint(async () => 7), 7)
    await batch.put('records', [record('c')])
  })
  const rows = await writer.write((batch) => batch.loadAll('records'))
  assert.deepEqual(rows.map(rkeyOf).toSorted(), ['a', 'c'])
})

test('records of a hidden account are not among those that are classified', async () => {
  await using writer = await openTestIndex()
  const { uri } = record('a')
  const found = () =>
    writer.write(async (batch) => {
      const rows = await all(batch.classes.activities([uri]))
      return rows.flatMap((each) => each.rows.map((row) => row.uri))
    })
  await writer.write((batch) => batch.put('records', [record('a')]))
  assert.deepEqual(await found(), [uri])
  await writer.write((batch) => batch.put('accounts', [account]))
  assert.deepEqual(await found(), [])
})

test('many awards of one badge are all found, also beside badges that few name', async () => {
  await using writer = await openTestIndex()
  const badge = (name: string) => ({
    uri: `at://${alice}/app.attested.badge.definition/${name}`,
    cid: 'bafy',
  })
  const award = (name: string, index: number): RowOf<'awards'> => ({
    uri: `at://${alice}/app.attested.badge.award/${name}${index}`,
    issuer: alice,
    subject: alice,
    badgeUri: badge(name).uri,
    badgeCid: name === 'old' ? 'bafyold' : 'bafy',
  })
  const awards = [
    ...Array.from({ length: 1203 }, (_, index) => award('much', index)),
    award('few', 1),
    award('old', 1),
    award('other', 1),
  ]
  await writer.write((batch) => batch.put('awards', awards))
  const naming = (names: string[]) =>
    writer.write(async (batch) => (await all(batch.classes.awardsOfBadges(names.map(badge)))).flat())
  assert.equal(new Set(await naming(['few', 'much', 'old'])).size, 1204)
  assert.deepEqual(await naming(['few']), [award('few', 1).uri])
  const ofAccount = await writer.write(async (batch) =>
    (await all(batch.classes.awardsOfBadgesOf(alice))).flat(),
  )
  assert.equal(new Set(ofAccount).size, 1206)
})

test('many collections that list one activity are all found, each once, whatever their times', async () => {
  await using writer = await openTestIndex()
  const activity = record('a')
  const items = Array.from({ length: 1203 }, (_, index) => ({
    collectionUri: `at://${alice}/org.impact.collection/${index}`,
    activityUri: activity.uri,
    activityCid: activity.cid,
    feedTime: BigInt((index % 7) - 3),
  }))
  const found = await writer.write(async (batch) => {
    await batch.put('collectionItems', items)
    return (await all(batch.classes.collectionsListing([activity]))).flat()
  })
  assert.deepEqual(found.toSorted(), items.map(({ collectionUri }) => collectionUri).toSorted())
})

test('places that are too old are forgotten some at a time', async () => {
  await using writer = await openTestIndex()
  const places = Array.from({ length: 1203 }, (_, index) => {
    const { uri, did, cid, indexedAt, createdAt } = record(String(index))
    return { uri, did, cid, indexedAt, createdAt, supersededAt: index < 1200 ? 5n : 6n }
  })
  await writer.write((batch) => batch.put('superseded', places))
  const forget = (): Promise<boolean> => writer.write((batch) => batch.queues.forgetSomePlaces(6n))
  const left = async (): Promise<number> =>
    (await writer.write((batch) => batch.loadAll('superseded'))).length
  const counts: number[] = []
  while (await forget()) counts.push(await left())
  assert.deepEqual(counts, [703, 203, 3])
  assert.equal(await left(), 3)
})

test('collections with many items are compared one by one, and others together', async () => {
  await using writer = await openTestIndex()
  const large = Array.from({ length: 12 }, (_, index) => `at://${alice}/org.impact.collection/large${index}`)
  const small = Array.from({ length: 250 }, (_, index) => `at://${alice}/org.impact.collection/small${index}`)
  await writer.write(async (batch) => {
    for (const collectionUri of large) {
      const items = Array.from({ length: 1100 }, (_, index) => ({
        collectionUri,
        activityUri: record(String(index)).uri,
        activityCid: 'bafy',
        feedTime: 1n,
      }))
      await batch.put('collectionItems', items)
    }
    const asked = (await all(batch.classes.collections([...large, ...small]))).map((step) => step.asked)
    assert.deepEqual(asked.flat().toSorted(), [...large, ...small].toSorted())
    for (const step of asked) assert.ok(step.filter((uri) => large.includes(uri)).length <= 1)
    assert.ok(asked.length <= large.length + 2, `${asked.length} steps`)
  })
})

test('a transaction tells how many rows it was about', async () => {
  await using writer = await openTestIndex()
  await writer.write(async (batch) => {
    await batch.put('records', [record('a'), record('b'), record('c')])
    assert.equal(batch.rows, 3)
    await batch.load('records', [record('a').uri, record('z').uri])
    assert.equal(batch.rows, 4)
    await batch.remove('records', [record('a').uri])
    assert.equal(batch.rows, 5)
  })
})

test('a long text counts as further rows where it is put and where it is read, and items that are compared do too', async () => {
  await using writer = await openTestIndex()
  await writer.write(async (batch) => {
    await batch.put('records', [{ ...record('a'), json: 'x'.repeat(5500) }])
    assert.equal(batch.rows, 6)
    await batch.load('records', [record('a').uri])
    assert.equal(batch.rows, 12)
    await batch.put('views', [{ uri: record('a').uri, did: alice, view: 'x'.repeat(2000) }])
    assert.equal(batch.rows, 15)
    const items = Array.from({ length: 200 }, (_, n) => ({
      collectionUri: record('b').uri,
      activityUri: record(String(n)).uri,
      activityCid: 'bafy',
      feedTime: 1n,
    }))
    await batch.put('collectionItems', items)
    const before = batch.rows
    await all(batch.classes.collections([record('b').uri]))
    assert.ok(batch.rows - before >= 200 / 16)
  })
})

test('authors whose rows are to be made again come by how long they have waited, those who are to be hidden by themselves', async () => {
  await using writer = await openTestIndex()
  const remake = (name: string, place: bigint, isHiding = 0n, failures = 0n): RowOf<'remakes'> => ({
    did: `did:plc:${name}` as Did, // plausible
    seq: 1n,
    place,
    version: 1n,
    accountVersion: 1n,
    isHiding,
    isDefiner: 0n,
    isLister: 0n,
    contents: '{}',
    failures,
  })
  await writer.write(async (batch) => {
    const { queues } = batch
    const next = async (isHiding: boolean): Promise<string | undefined> =>
      (await queues.nextRemake(isHiding))?.did.replace('did:plc:', '')
    assert.deepEqual([await queues.lastRemakePlace(), await queues.remakes()], [1n, 0])
    await batch.put('remakes', [
      remake('failed', 1n, 0n, 3n),
      remake('late', 5n),
      remake('early', 2n),
      remake('hidden', 3n, 1n),
      remake('later-hidden', 4n, 1n),
    ])
    assert.deepEqual([await queues.lastRemakePlace(), await queues.remakes()], [6n, 5])
    assert.deepEqual([await next(true), await next(false)], ['hidden', 'early'])
    await batch.remove(
      'remakes',
      ['early', 'hidden', 'late'].map((name) => `did:plc:${name}`),
    )
    assert.deepEqual([await next(true), await next(false)], ['later-hidden', undefined])
    assert.equal(await queues.lastRemakePlace(), 5n)
    await queues.retryRemakes()
    assert.equal(await next(false), 'failed')
  })
})

test('what was done before a transaction is split stays, and others have theirs there', async () => {
  await using writer = await openTestIndex()
  const rkeys = async (): Promise<string[]> =>
    (await writer.write((batch) => batch.loadAll('records'))).map(rkeyOf).toSorted()
  const seen: string[][] = []
  const long = writer.write(async (batch) => {
    const between = rkeys().then((found) => seen.push(found))
    await batch.put('records', [record('a')])
    await batch.split()
    await between
    await batch.put('records', [record('b')])
    throw new RangeError('planted')
  })
  await assert.rejects(long, RangeError)
  assert.deepEqual([seen, await rkeys()], [[['a']], ['a']])
})

test('what waits for a time that only a clock that was ahead can have given is due, after what is due by itself', async () => {
  await using writer = await openTestIndex()
  const now = 1_000_000_000_000_000n
  const dayMicros = 86_400_000_000n
  const didOf = (name: string): Did => `did:plc:${name}` as Did // for a table
  const times = { ahead: now + 1000n * dayMicros, soon: now + dayMicros, due: now - dayMicros, past: 0n }
  await writer.write(async (batch) => {
    for (const [name, time] of Object.entries(times)) {
      await batch.put('handleRequests', [{ did: didOf(name), seq: 0n, attempts: 0n, dueAt: time }])
      await batch.put('accounts', [{ ...account, did: didOf(name), checkedAt: time }])
    }
    await batch.put('accounts', [{ ...account, did: didOf('now'), checkedAt: now }])
  })
  const due = (limit: number): Promise<Did[]> =>
    writer.write(async (batch) => (await batch.queues.dueHandles(now, limit)).map(({ did }) => did))
  assert.deepEqual(await due(10), ['past', 'due', 'ahead'].map(didOf))
  assert.deepEqual(await due(2), ['past', 'due'].map(didOf))
  const toCheck = (limit: number): Promise<Did[]> =>
    writer.write((batch) => batch.queues.accountsToCheck({ before: now - 1n, now, limit }))
  assert.deepEqual(await toCheck(10), ['past', 'due', 'soon', 'ahead'].map(didOf))
  assert.deepEqual(await toCheck(1), ['past'].map(didOf))
})

test('the items of a record are removed some at a time, however many it has', async () => {
  await using writer = await openTestIndex()
  const items = Array.from({ length: 700 }, (_, index) => ({
    collectionUri: `at://${alice}/org.impact.collection/one`,
    activityUri: `at://${alice}/org.impact.claim.activity/${index}`,
    activityCid: 'bafyreia',
    feedTime: 0n,
  }))
  await writer.write((batch) => batch.put('collectionItems', items))
  const steps = await writer.write(async (batch) => {
    const rows = [batch.rows]
    for await (const _ of batch.accounts.removeRecords(alice)) rows.push(batch.rows)
    return rows.slice(1).map((sum, at) => sum - (rows[at] ?? 0))
  })
  assert.deepEqual(steps, [500, 200])
  assert.deepEqual(await writer.write((batch) => batch.loadAll('collectionItems')), [])
})

test('the items of some records are removed and those of others stay, however many there are', async () => {
  await using writer = await openTestIndex()
  const itemsOf = (rkey: string, count: number): RowOf<'collectionItems'>[] =>
    Array.from({ length: count }, (_, index) => ({
      collectionUri: `at://${alice}/org.impact.collection/${rkey}`,
      activityUri: `at://${alice}/org.impact.claim.activity/${index}`,
      activityCid: 'bafyreia',
      feedTime: 0n,
    }))
  const kept = itemsOf('b', 2)
  for (const count of [1, 499, 500, 700]) {
    const [first, second] = [itemsOf('a', count), itemsOf('c', 3)]
    const removed = await writer.write(async (batch) => {
      await batch.put('collectionItems', [...first, ...kept, ...second])
      return all(batch.removeItems(['a', 'c'].map((rkey) => `at://${alice}/org.impact.collection/${rkey}`)))
    })
    const listed = [...first, ...second].map(({ activityUri }) => activityUri)
    assert.deepEqual(removed.flat().toSorted(), listed.toSorted(), `${count} items`)
    assert.deepEqual(await writer.write((batch) => batch.loadAll('collectionItems')), kept)
  }
})

test('some items of one collection record are removed, and the others stay', async () => {
  await using index = await openTestIndex()
  const itemsOf = (rkey: string, count: number): RowOf<'collectionItems'>[] =>
    Array.from({ length: count }, (_, n) => ({
      collectionUri: `at://${alice}/org.impact.collection/${rkey}`,
      activityUri: record(`r${n >> 1}`).uri,
      activityCid: `bafy${n % 2}`,
      feedTime: 1n,
    }))
  const [some, others] = [itemsOf('a', 1201), itemsOf('b', 3)]
  await index.write(async (batch) => {
    await batch.put('collectionItems', [...some, ...others])
    await batch.removeListed(`at://${alice}/org.impact.collection/a`, some.slice(0, -2))
  })
  const left = await index.write((batch) => batch.loadAll('collectionItems'))
  const keyOf = (item: RowOf<'collectionItems'>): string => Object.values(item).join(' ')
  assert.deepEqual(new Set(left.map(keyOf)), new Set([...some.slice(-2), ...others].map(keyOf)))
})
