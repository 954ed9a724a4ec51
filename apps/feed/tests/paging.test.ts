/** Behaviour cases 106 to 125 of the feed specification, as far as a reader decides them: kinds, order and cursors. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { did, recordOf } from './sample.ts'
import { impactFeedId, request, TestFeed, viewer } from './test-feed.ts'
import { getFeed, getFeedSkeleton } from './token-issuer.ts'

const alice = did('alice')
const bob = did('bob')
const invalid = { $type: 'org.impact.claim.activity' }
let feed: TestFeed

before(async () => {
  feed = await TestFeed.start()
})
after(() => feed[Symbol.asyncDispose]())
beforeEach(async () => {
  await feed.index.clear()
  await feed.index.follow(viewer, alice)
  await feed.index.follow(viewer, bob)
})

test('a kind filter keeps the entries of its kinds', async () => {
  const project = await feed.index.entry({ did: alice, kind: 'project.created_with_cert', rkey: 'c' })
  const collection = await feed.index.entry({ did: alice, kind: 'collection.create', rkey: 'b' })
  const board = await feed.index.entry({ did: bob, kind: 'hyperboard.create', rkey: 'a' })
  assert.deepEqual(await subjects({ kinds: ['project.created_with_cert'] }), [project])
  assert.deepEqual(await subjects({ kinds: ['collection.create'] }), [collection])
  assert.deepEqual(await subjects({ kinds: ['cert.create'] }), [])
  assert.deepEqual(await subjects({ kinds: ['hyperboard.create', 'project.created_with_cert'] }), [
    board,
    project,
  ])
})

test('entries come newest first, whoever they are by', async () => {
  const early = await feed.index.entry({ did: alice, at: '2026-03-04T10:00:00.000001Z' })
  const late = await feed.index.entry({ did: bob, at: '2026-03-04T10:00:00.000002Z' })
  const future = await feed.index.entry({ did: alice, at: '9998-12-31T23:59:59.999999Z' })
  const past = await feed.index.entry({ did: bob, at: '0001-01-01T00:00:00Z' })
  assert.deepEqual(await subjects(), [future, late, early, past])
  assert.deepEqual(await walk(1), [[future], [late], [early], [past]])
})

test('entries of one time come in falling order of their addresses', async () => {
  const [a, b, c] = await keyed('a', 'b', 'c')
  const first = await feed.skeleton({}, { limit: 2 })
  assert.deepEqual(first.subjects, [c, b])
  const second = await feed.skeleton({}, { limit: 2, cursor: first.cursor })
  assert.deepEqual(second, { subjects: [a], cursor: undefined })
})

test('addresses are compared by their bytes', async () => {
  const [upper, lower, tilde, digit] = await keyed('Z', 'a', '~', '9')
  assert.deepEqual(await subjects(), [tilde, lower, upper, digit])
})

test('a page that holds everything that is left has no cursor', async () => {
  await feed.index.entries(alice, 5)
  assert.equal((await feed.skeleton({}, { limit: 5 })).cursor, undefined)
  assert.ok((await feed.skeleton({}, { limit: 4 })).cursor)
})

test('the next page starts below the last one, whatever came in or went meanwhile', async () => {
  const [newest, second, third = '', fourth] = await feed.index.entries(alice, 4)
  const first = await feed.skeleton({}, { limit: 3 })
  assert.deepEqual(first.subjects, [newest, second, third])
  await feed.index.entry({ did: alice, at: '2026-03-05T00:00:00Z' })
  await feed.index.remove(third)
  assert.deepEqual((await feed.skeleton({}, { limit: 3, cursor: first.cursor })).subjects, [fourth])
})

test('walking to the end gives every entry once, in order, however large the pages', async () => {
  for (let i = 0; i < 40; i++) {
    const at = `2026-03-04T10:00:${String(i % 7).padStart(2, '0')}Z`
    await feed.index.entry({
      did: i % 3 === 0 ? alice : bob,
      at,
      kind: i % 2 === 0 ? 'cert.create' : 'update.create',
    })
  }
  const all = await subjects({}, { limit: 50 })
  assert.equal(new Set(all).size, 40)
  for (const limit of [1, 3, 7, 20]) assert.deepEqual((await walk(limit)).flat(), all)
})

test('kinds may change between pages', async () => {
  const [update] = await keyed('a')
  await feed.index.entries(alice, 3)
  const { cursor } = await feed.skeleton({}, { limit: 1 })
  const rest = await feed.skeleton({ kinds: ['cert.create'] }, { cursor })
  assert.equal(rest.subjects.length, 3)
  assert.ok(rest.subjects.includes(update ?? ''))
})

test('a page whose records are all invalid is empty and goes on where the skeleton does', async () => {
  for (let i = 0; i < 2; i++)
    await feed.index.entry({ did: alice, at: `2026-03-04T12:00:0${i}Z`, record: invalid })
  const good = await feed.index.entry({ did: alice, at: '2026-03-04T11:00:00Z' })
  const page = await feed.page({}, { limit: 2 })
  const skeleton = await feed.skeleton({}, { limit: 2 })
  assert.deepEqual(page.feed, [])
  assert.ok(page.cursor)
  assert.equal(page.cursor, skeleton.cursor)
  const next = await feed.page({}, { limit: 2, cursor: page.cursor })
  assert.deepEqual(
    next.feed.map(({ subject }) => subject),
    [good],
  )
})

test('a dropped entry is not replaced, and its neighbours keep their order', async () => {
  const top = await feed.index.entry({ did: alice, at: '2026-03-04T12:00:03Z' })
  await feed.index.entry({
    did: bob,
    at: '2026-03-04T12:00:02Z',
    record: recordOf('cert.create', { title: undefined }),
  })
  const low = await feed.index.entry({ did: alice, at: '2026-03-04T12:00:01Z' })
  await feed.index.entry({ did: alice, at: '2026-03-04T12:00:00Z' })
  const { feed: items } = await feed.page({}, { limit: 3 })
  assert.deepEqual(
    items.map(({ subject }) => subject),
    [top, low],
  )
})

test('both methods take the cursors of each other', async () => {
  await feed.index.entries(alice, 3)
  const skeleton = await feed.skeleton({}, { limit: 1 })
  const page = await feed.page({}, { limit: 1 })
  assert.equal(page.cursor, skeleton.cursor)
  const fromSkeleton = await feed.page({}, { limit: 1, cursor: skeleton.cursor })
  const fromPage = await feed.skeleton({}, { limit: 1, cursor: page.cursor })
  assert.deepEqual(
    fromSkeleton.feed.map(({ subject }) => subject),
    fromPage.subjects,
  )
})

test('a cursor has the documented form', async () => {
  const account = 'did:plc:aliceaaaaaaaaaaaaaaaaaaa' as typeof alice // DID syntax
  await feed.index.follow(viewer, account)
  await feed.index.entry({ did: account, at: '2026-03-04T05:06:07Z', rkey: '3act' })
  await feed.index.entry({ did: account, at: '2026-03-04T05:06:06Z', rkey: '3old' })
  const { cursor } = await feed.skeleton({}, { limit: 1 })
  assert.equal(
    cursor,
    'eyJ2ZXJzaW9uIjoxLCJmZWVkSWQiOiJvcmcuaW1wYWN0LmZlZWQuZGVmcyNpbXBhY3RGZWVkIiwidmFsdWUiOnsidmFsdWUiOiIyMDI2LTAzLTA0VDA1OjA2OjA3LjAwMDAwMFoiLCJ1cmkiOiJhdDovL2RpZDpwbGM6YWxpY2VhYWFhYWFhYWFhYWFhYWFhYWFhL29yZy5pbXBhY3QuY2xhaW0uYWN0aXZpdHkvM2FjdCJ9fQ',
  )
})

test('a bad cursor is refused without a read', async () => {
  await using broken = await TestFeed.start()
  await broken.breakIndex()
  const value = { value: '2026-03-04T05:06:07.000000Z', uri: `at://${alice}/org.impact.claim.activity/3act` }
  const good = { version: 1, feedId: impactFeedId, value }
  const bad: readonly string[] = [
    `${encode(good)}=`,
    `${encode(good)}+`,
    'é',
    ' ',
    encode('{'),
    encode(null),
    encode([good]),
    encode({ ...good, version: 2 }),
    encode({ ...good, version: '1' }),
    encode({ ...good, extra: 1 }),
    encode({ version: 1, value }),
    encode({ ...good, feedId: 'org.other.feed' }),
    encode({ ...good, value: 'x' }),
    encode({ ...good, value: null }),
    encode({ ...good, value: [value.value, value.uri] }),
    encode({ ...good, value: { ...value, extra: 1 } }),
    encode({ ...good, value: { ...value, value: '2026-03-04' } }),
    encode({ ...good, value: { ...value, value: '2026-02-30T00:00:00Z' } }),
    encode({ ...good, value: { ...value, value: 1 } }),
    encode({ ...good, value: { ...value, uri: 'https://example.com' } }),
    encode({ ...good, value: { ...value, uri: 7 } }),
  ]
  for (const cursor of bad) {
    for (const method of [getFeed, getFeedSkeleton]) {
      const { status, body } = await broken.call(method, request({ viewerDid: viewer }, { cursor }))
      assert.deepEqual([status, body.error], [400, 'InvalidCursor'], cursor)
    }
  }
})

/** Stores entries of noon under these keys and returns their addresses. */
async function keyed(...rkeys: string[]): Promise<string[]> {
  const uris: string[] = []
  for (const rkey of rkeys) uris.push(await feed.index.entry({ did: alice, rkey }))
  return uris
}

async function subjects(params: object = {}, fields: object = {}): Promise<string[]> {
  return (await feed.skeleton(params, fields)).subjects
}

/** Every page of a walk to the end. */
async function walk(limit: number): Promise<string[][]> {
  const pages: string[][] = []
  let cursor: string | undefined
  do {
    const page = await feed.skeleton({}, { limit, ...(cursor === undefined ? {} : { cursor }) })
    pages.push(page.subjects)
    cursor = page.cursor
  } while (cursor !== undefined)
  return pages
}

function encode(value: unknown): string {
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
}
