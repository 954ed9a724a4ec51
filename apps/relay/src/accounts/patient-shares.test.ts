import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { PatientShares } from './patient-shares.ts'

test('accounts of did:web count for their domain, whatever their port, and for the name as it is when it is none', () => {
  const shares = new PatientShares({ kindOf: () => 'relay', isRead: () => false })
  const shareOf = (did: string, host?: string) =>
    shares.of({ did: did as Did, cause: 'relay.example', host }).at(-1)?.name // DID syntax
  const known = shareOf('did:web:evil.example')
  assert.equal(shareOf('did:web:evil.example%3A8443'), known)
  assert.equal(shareOf('did:web:Evil.example:user'), known)
  assert.equal(shareOf('did:plc:abc', 'evil.example:8443'), known)
  assert.equal(shareOf('did:web:%zz'), 'relay.example %zz')
})
