/** What a job does for a repository, by what its host lists and what is known of it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { unknownRepo } from '../ingest/repo-states.ts'
import { missingRepo } from './missing-repo.ts'

const did = 'did:plc:a' as Did // only a name here
const whole = { ...unknownRepo, rev: '3l2', completeRevision: 1 }

/** `done` when nothing is to be done, else the state of the repository and the milliseconds that it waits. */
function workFor(inactive: string | undefined, state: Parameters<typeof missingRepo>[1]): unknown {
  const repo = missingRepo({ did, rev: '3l2', inactive }, state, {
    newestAddition: 1,
    settleMs: 50,
    nowMs: 100,
  })
  return repo ? [repo.state, repo.nextAtMs - 100] : 'done'
}

test('a repository that the archive has all of is left, unless its host and what is shown disagree on the account', () => {
  assert.equal(workFor(undefined, whole), 'done')
  assert.equal(workFor('takendown', { ...whole, isHidden: true }), 'done')
  assert.deepEqual(workFor('takendown', whole), ['pending', 0])
  // Its events may be on their way.
  assert.deepEqual(workFor(undefined, { ...whole, isHidden: true }), ['waiting', 50])
})

test('of an account that is not active and of which nothing is shown nothing is asked', () => {
  assert.deepEqual(workFor('deactivated', undefined), ['unavailable', 0])
  assert.deepEqual(workFor('deactivated', { ...whole, isHidden: true, needsRefetch: true }), [
    'unavailable',
    0,
  ])
})
