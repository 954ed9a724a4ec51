import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { PatientShares, type Share, type Standing } from './patient-shares.ts'

test('accounts of a relay count for the host that their documents name, whatever its port', () => {
  const shares = new PatientShares({ kindOf: () => 'relay', isRead: () => false })
  const shareOf = (did: string, host?: string) =>
    shares.of({ did: did as Did, cause: 'relay.example', host }).at(-1)?.name // DID syntax
  const known = shareOf('did:plc:abc', 'evil.example')
  assert.equal(shareOf('did:plc:abc', 'Evil.example:8443'), known)
  assert.equal(shareOf('did:web:user.example', 'evil.example'), known)
  assert.notEqual(shareOf('did:web:evil.example'), known)
})

test('of all that wait an account gives way for which it was of no use, then one whose host is silent, then of many', () => {
  const shares = new PatientShares({ kindOf: () => 'relay', isRead: () => false })
  const sharesOf = (host: string): Share[] => shares.of({ did: 'did:plc:a' as Did, cause: 'relay', host }) // DID syntax
  const waits = (did: string, host: string, standing: Standing): void => {
    shares.count(sharesOf(host), 1)
    shares.list(did as Did, sharesOf(host), standing) // a name is enough here
  }
  const [ofAll = assert.fail()] = sharesOf('a')
  shares.count([ofAll], ofAll.max - 11)
  for (const did of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) waits(did, did.charAt(0), 'fresh')
  for (const did of ['b3', 'd1', 'd2']) waits(did, did.charAt(0), 'silent')
  waits('c2', 'c', 'fruitless')
  assert.equal(shares.givingWayTo(sharesOf('e')), undefined, 'there is room')
  waits('e1', 'e', 'fruitless')
  const gone: unknown[] = []
  const give = (): Did | undefined => shares.givingWayTo(sharesOf('c'))
  for (let did = give(); did !== undefined; did = give()) {
    gone.push(did)
    for (const host of 'abcde') shares.unlist(did, sharesOf(host))
  }
  assert.deepEqual(gone, ['c2', 'e1', 'd1', 'b3', 'd2', 'a1'])
})
