/**
 * The fixed set of records of the demo: something for every entry kind, records that must not be shown, updates,
 * deletes, every watched collection, and one that is not watched. It returns what the viewer's feed must then be.
 */
import type { Account } from '@tributary/testkit'
import type { Cast } from './cast.ts'
import type { Testkit } from './testkit.ts'

type Fields = Record<string, unknown>

export interface ExpectedEntry {
  subject: string
  kind: string
  /** Handle or display name of the author as the feed must show it. */
  author: string
  /** What `content` must hold. */
  content: Fields
}

/** A collection that the stream does not watch; its records reach consumers of the relay only. */
const unwatchedCollection = 'com.example.note'

const bulkRecords = 60

/** Hands out rising moments, so that the order of the feed is known. */
class Clock {
  #now = Date.now() - 60_000

  next(): string {
    this.#now += 250
    return new Date(this.#now).toISOString()
  }
}

/** Writes everything. Returns the entries that the viewer must see, newest first. */
export async function writeStory(
  cast: Cast,
  { sampleRecord, sampleCollections, sampleRkey }: Testkit,
): Promise<ExpectedEntry[]> {
  const { viewer, alice, bob, carol, dave, eve, greenbelt, quickwin } = cast
  const clock = new Clock()
  const entries: ExpectedEntry[] = []
  const write = (account: Account, collection: string, fields: Fields = {}) =>
    account.create(
      collection,
      sampleRecord(collection, { createdAt: clock.next(), ...fields }),
      sampleRkey(collection),
    )
  const expect = (kind: string, author: string, { uri: subject }: { uri: string }, content: Fields): void => {
    entries.unshift({ subject, kind, author, content })
  }
  const activity = (account: Account, title: string) => write(account, 'org.impact.claim.activity', { title })

  await write(alice, 'app.attested.actor.profile', { displayName: 'Alice Root' })
  await write(bob, 'app.social.actor.profile', { displayName: 'Bob of the hills' })
  await write(greenbelt, 'app.attested.actor.organization')
  await write(greenbelt, 'app.attested.actor.profile', { displayName: 'Greenbelt' })
  await write(quickwin, 'app.attested.actor.organization')
  for (const { did } of [alice, bob, eve, greenbelt, quickwin]) {
    await write(viewer, 'app.attested.graph.follow', { subject: did })
  }
  const follow = await write(viewer, 'app.attested.graph.follow', { subject: dave.did })
  await activity(dave, 'Seen by nobody, since Dave is not followed any more')
  await viewer.delete('app.attested.graph.follow', rkeyOf(follow))
  await activity(viewer, 'The own activity of the viewer')
  await activity(quickwin, 'An activity of an organization that is rated likely-test')

  const planting = await activity(alice, 'Spring planting')
  const items = [{ itemIdentifier: { uri: planting.uri, cid: planting.cid } }]
  const project = await write(alice, 'org.impact.collection', { title: 'Orchard project', items })
  expect('project.created_with_cert', 'Alice Root', project, { title: 'Orchard project', itemCount: 1 })

  const draft = sampleRecord('org.impact.claim.activity', { createdAt: clock.next(), title: 'Wel repair' })
  const wells = await alice.create('org.impact.claim.activity', draft)
  const fixed = await alice.put('org.impact.claim.activity', rkeyOf(wells), {
    ...draft,
    title: 'Well repair',
  })
  expect('cert.create', 'Alice Root', wells, { title: 'Well repair', locationCount: 0 })
  await alice.delete('org.impact.claim.activity', rkeyOf(await activity(alice, 'Never happened')))

  const collection = await write(bob, 'org.impact.collection', { title: 'Water work' })
  expect('collection.create', 'Bob of the hills', collection, { title: 'Water work', itemCount: 0 })
  const target = { uri: fixed.uri, cid: fixed.cid }
  const evaluation = await write(bob, 'org.impact.context.evaluation', {
    subject: target,
    summary: 'It holds water.',
  })
  expect('evaluation.create', 'Bob of the hills', evaluation, { summary: 'It holds water.', target })
  const update = await write(bob, 'org.impact.context.attachment', { title: 'Week 3', subjects: [target] })
  expect('update.create', 'Bob of the hills', update, { title: 'Week 3', target })

  const measurement = await write(greenbelt, 'org.impact.context.measurement', {
    metric: 'trees',
    subjects: [target],
  })
  expect('measurement.create', 'Greenbelt', measurement, { metric: 'trees', target })
  const board = await write(greenbelt, 'org.hyperboards.board', { subject: target })
  expect('hyperboard.create', 'Greenbelt', board, {})

  const badge = await write(eve, 'app.attested.badge.definition', {
    title: 'Endorsed',
    badgeType: 'endorsement',
  })
  const subject = { $type: 'app.attested.defs#did', did: carol.did }
  const award = await write(eve, 'app.attested.badge.award', {
    badge: { uri: badge.uri, cid: badge.cid },
    subject,
  })
  expect('endorsement.award', eve.handle, award, {})
  const badgeAward = { uri: award.uri, cid: award.cid }
  await write(carol, 'app.attested.badge.response', { badgeAward, response: 'accepted' })
  expect('cert.create', carol.handle, await activity(carol, 'Beach cleaning'), { title: 'Beach cleaning' })

  await writeTheRest(
    cast,
    sampleCollections,
    (name) => sampleRecord(name, { createdAt: clock.next() }),
    sampleRkey,
  )
  return entries
}

/** One record of every further collection, and a run of creates, updates and deletes. All by Dave, whom nobody follows. */
async function writeTheRest(
  { dave }: Cast,
  collections: readonly string[],
  sample: (collection: string) => Fields,
  rkeyFor: (collection: string) => string | undefined,
): Promise<void> {
  for (const collection of collections) await dave.create(collection, sample(collection), rkeyFor(collection))
  for (const text of ['one', 'two', 'three']) await dave.create(unwatchedCollection, { text })

  const collection = 'app.attested.location'
  const keys = Array.from({ length: bulkRecords }, (_, i) => `demo-${i}`)
  await dave.applyWrites(
    keys.map((rkey) => ({ action: 'create', collection, rkey, value: sample(collection) })),
  )
  const changed = keys.slice(0, bulkRecords / 2)
  await dave.applyWrites(
    changed.map((rkey) => ({ action: 'update', collection, rkey, value: sample(collection) })),
  )
  const removed = keys.slice(-bulkRecords / 3)
  await dave.applyWrites(removed.map((rkey) => ({ action: 'delete', collection, rkey })))
}

function rkeyOf({ uri }: { uri: string }): string {
  return uri.slice(uri.lastIndexOf('/') + 1)
}
