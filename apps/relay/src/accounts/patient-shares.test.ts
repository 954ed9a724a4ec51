import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { PatientShares } from './patient-shares.ts'

test('accounts of a relay count for the host that their documents name, whatever its port', () => {
  const shares = new PatientShares({ kindOf: () => 'relay', isRead: () => false })
  const shareOf = (did: string, host?: string) =>
    shares.of({ did: did as Did, cause: 'relay.example', host }).at(-1)?.name // DID syntax
  const known = shareOf('did:plc:abc', 'evil.example')
  assert.equal(shareOf('did:plc:abc', 'Evil.example:8443'), known)
  assert.equal(shareOf('did:web:user.example', 'evil.example'), known)
  assert.notEqual(shareOf('did:web:evil.example'), known)
})
