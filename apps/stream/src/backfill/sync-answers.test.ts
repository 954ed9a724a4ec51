import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BadAnswerError, readListHosts, readListRepos } from './sync-answers.ts'

test('a page of more rows than can be asked for is refused, since each of them costs time', () => {
  const page = (key: string, count: number) => ({
    status: 200,
    body: Buffer.from(JSON.stringify({ [key]: Array.from({ length: count }, () => ({ hostname: 'x' })) })),
  })
  assert.equal(readListHosts(page('hosts', 1000)).rows.length, 1000)
  assert.throws(() => readListHosts(page('hosts', 1001)), BadAnswerError)
  assert.throws(() => readListRepos(page('repos', 1001)), BadAnswerError)
})
