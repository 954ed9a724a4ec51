import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Journal, type Finding } from './journal.ts'

const did = 'did:plc:honest'

/** A journal in which three commits and an `#identity` were sent, and what is found when a consumer sees something. */
function sentJournal(): { journal: Journal<string>; see: (key: string, content?: string) => Finding } {
  const journal = new Journal<string>()
  journal.add(did)
  const events: [key: string, rev?: string][] = [
    ['commit 1', '1'],
    ['commit 2', '2'],
    ['identity'],
    ['commit 3', '3'],
  ]
  for (const [key, rev] of events)
    journal.note({ did, key, rev, sentAtMs: 0, isAsSent: (seen) => seen === `content of ${key}` })
  const see = (key: string, content = `content of ${key}`): Finding => {
    const syncRev = /^sync (.*)/.exec(key)?.[1]
    return journal.find({ did, key, isHint: content === 'hint', syncRev, detail: '' }, content).finding
  }
  return { journal, see }
}

test('what was sent, once and in order, is found so, and nothing is missing', () => {
  const { journal, see } = sentJournal()
  for (const key of ['commit 1', 'commit 2', 'identity', 'commit 3']) assert.equal(see(key), 'as-sent')
  assert.deepEqual(journal.missing(1), [])
})

test('what nobody sent, or with other content, or a second time, is a fault', () => {
  const { see } = sentJournal()
  assert.equal(see('commit 9'), 'forged')
  assert.equal(see('sync 9'), 'forged')
  assert.equal(see('commit 1', 'other content'), 'altered')
  assert.equal(see('commit 2'), 'as-sent')
  assert.equal(see('commit 2'), 'repeated')
})

test('what comes after a later event is out of order, and missing until then', () => {
  const { journal, see } = sentJournal()
  assert.equal(see('commit 2'), 'as-sent')
  assert.deepEqual(
    journal.missing(1).map(({ key }) => key),
    ['commit 1', 'identity', 'commit 3'],
  )
  assert.equal(see('commit 1'), 'out-of-order')
})

test('a #sync of the relay makes up for the commits up to its revision', () => {
  const { journal, see } = sentJournal()
  assert.equal(see('sync 2'), 'made-up-for')
  assert.deepEqual(
    journal.missing(1).map(({ key }) => key),
    ['identity', 'commit 3'],
  )
})

test('a hint of a stranger is no fault, and does not stand for the event of the own host', () => {
  const { see } = sentJournal()
  assert.equal(see('identity', 'hint'), 'hint')
  assert.equal(see('identity'), 'as-sent')
})

test('a repository that is read as a whole comes as creates of its revision, and again after a #sync', () => {
  const journal = new Journal<string>({ readsAgain: true })
  journal.add(did)
  for (const [rev, path, content] of [
    ['1', 'a', 'old'],
    ['2', 'b', 'other'],
    ['3', 'a', 'new'],
  ] as const)
    journal.note({ did, key: `${rev} ${path}`, rev, path, sentAtMs: 0, isAsSent: (seen) => seen === content })
  const create = (rev: string, path: string, content: string): Finding => {
    const event = { did, key: `${rev} ${path}`, isHint: false, syncRev: undefined, detail: '' }
    return journal.find({ ...event, created: { rev, path } }, content).finding
  }
  const sync = (rev: string): Finding =>
    journal.find({ did, key: `sync ${rev}`, isHint: false, syncRev: rev, detail: '' }, '').finding
  assert.equal(create('2', 'a', 'old'), 'read-again')
  assert.equal(create('2', 'a', 'old'), 'repeated')
  assert.deepEqual(
    journal.missing(1).map(({ key }) => key),
    ['3 a'],
  )
  assert.equal(create('3', 'b', 'not what was written'), 'forged')
  assert.equal(create('3', 'a', 'new'), 'as-sent')
  assert.equal(create('3', 'a', 'new'), 'repeated')
  assert.equal(sync('3'), 'read-again')
  assert.equal(create('3', 'a', 'new'), 'read-again')
  assert.equal(create('3', 'a', 'old'), 'repeated')
  assert.equal(sync('9'), 'forged')
})

test('a #sync that a repository which was read as a whole stands for need not come', () => {
  const journal = new Journal<string>({ readsAgain: true })
  journal.add(did)
  for (const rev of ['1', '2', '3'])
    journal.note({ did, key: `sync ${rev}`, rev, sentAtMs: 0, isAsSent: () => true })
  const sync = { did, key: 'sync of the stream', isHint: false, syncRev: '2', detail: '' }
  assert.equal(journal.find(sync, '').finding, 'read-again')
  assert.deepEqual(
    journal.missing(1).map(({ key }) => key),
    ['sync 3'],
  )
})

test('a #sync of a repository that is read as a whole leaves what has no revision due', () => {
  const journal = new Journal<string>({ readsAgain: true })
  journal.add(did)
  const events: [key: string, rev?: string][] = [
    ['commit 1', '1'],
    ['account away'],
    ['account back'],
    ['sync 1', '1'],
  ]
  for (const [key, rev] of events) journal.note({ did, key, rev, sentAtMs: 0, isAsSent: () => true })
  const see = (key: string): Finding => {
    const syncRev = key === 'sync 1' ? '1' : undefined
    return journal.find({ did, key, isHint: false, syncRev, detail: '' }, '').finding
  }
  const order = ['commit 1', 'sync 1', 'account away', 'account back']
  assert.deepEqual(order.map(see), ['as-sent', 'as-sent', 'as-sent', 'as-sent'])
  assert.deepEqual(journal.missing(1), [])
})
