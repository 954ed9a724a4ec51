import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Reasons } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { accountOf, type Asked, because } from './explain.ts'

const [evaluator, labeler] = ['did:plc:evaluator', 'did:plc:labeler'] as [Did, Did] // made up
const asked: Asked = { viewer: 'did:plc:viewer', evaluators: [], quality: undefined, kinds: undefined }
const followed: Reasons = {
  follows: ['at://did:plc:viewer/app.attested.graph.follow/one'],
  endorsedBy: [],
  isOrganization: false,
  labels: [],
}

test('words say who brings an account in, how it is rated, and whether the kind was asked for', () => {
  assert.equal(because(followed, asked, true), 'followed')
  assert.equal(
    because({ ...followed, follows: [], endorsedBy: [evaluator] }, asked, true),
    `endorsed by ${evaluator}`,
  )
  const organization = { ...followed, isOrganization: true }
  assert.equal(because(organization, asked, true), 'followed; an organization, not rated')
  assert.equal(because(organization, asked, false), 'followed; an organization, ratings not looked at')
  const labels = [{ val: 'draft', src: labeler }] as const
  assert.equal(
    because(
      { ...organization, labels: [...labels] },
      { ...asked, quality: ['draft'], kinds: ['cert.create'] },
      true,
    ),
    `followed; an organization, rated draft by ${labeler}; of a kind that was asked for`,
  )
  assert.equal(because(followed, { ...asked, quality: ['draft'] }, true), 'followed; no organization')
})

test('an account that nobody brings in any more is told as such', () => {
  assert.match(because(undefined, asked, true), /^nothing in the index database/)
  assert.match(because({ ...followed, follows: [] }, asked, true), /^nothing in the index database/)
})

test('the account of a record is named by its address', () => {
  assert.equal(accountOf('at://did:plc:author/a.b.c/one'), 'did:plc:author')
  assert.equal(accountOf(''), '')
})
