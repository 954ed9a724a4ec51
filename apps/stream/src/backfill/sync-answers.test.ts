import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BadAnswerError, nextCursor, readListHosts, readListRepos } from './sync-answers.ts'

const answer = (said: object) => ({ status: 200, body: Buffer.from(JSON.stringify(said)) })

test('a page of more rows than can be asked for is refused, since each of them costs time', () => {
  const page = (key: string, count: number) =>
    answer({ [key]: Array.from({ length: count }, () => ({ hostname: 'x' })) })
  assert.equal(readListHosts(page('hosts', 1000)).rows.length, 1000)
  assert.throws(() => readListHosts(page('hosts', 1001)), BadAnswerError)
  assert.throws(() => readListRepos(page('repos', 1001)), BadAnswerError)
})

test('a page whose cursor cannot be used is not the last one', () => {
  for (const cursor of [undefined, null, ''])
    assert.equal(readListRepos(answer({ repos: [], cursor })).cursor, undefined)
  for (const cursor of [500, true, {}, 'x'.repeat(2049), '\ud800'])
    assert.throws(() => readListHosts(answer({ hosts: [], cursor })), BadAnswerError)
})

test('a page after a cursor that names the cursor again is the last one only when nothing is on it', () => {
  const page = (hosts: object[]) => readListHosts(answer({ hosts, cursor: 'a' }))
  assert.equal(nextCursor(page([{ hostname: 'x' }]), ''), 'a')
  assert.equal(nextCursor(page([]), 'a'), undefined)
  assert.throws(() => nextCursor(page([{ hostname: 'x' }]), 'a'), BadAnswerError)
})

test('a listed repository without a possible revision counts, and one without a possible DID does not', () => {
  const did = 'did:plc:22222222222222222222222a'
  const repos = [{ did }, { did, rev: 'x' }, { did, rev: 1 }, { did: 'x', rev: '3l22222222222' }]
  assert.deepEqual(
    readListRepos(answer({ repos })).rows.map((repo) => [repo.did, repo.rev]),
    [did, did, did].map((each) => [each, '']),
  )
})
