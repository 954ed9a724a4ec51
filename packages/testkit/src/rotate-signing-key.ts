import { randomBytes } from 'node:crypto'
import type { Account } from './account.ts'
import { Signer } from './signer.ts'

/**
 * Gives an account on a real PDS a new signing key, in the PDS and in the DID document, as the PDS then announces.
 * Returns the key that it had before, with which `Pds.replaceSigningKey` brings the old state of the PDS back.
 */
export async function rotateSigningKey(account: Account): Promise<Uint8Array> {
  const { pds, did } = account
  const key = randomBytes(32)
  const before = pds.replaceSigningKey(did, key)
  await account.procedure('com.atproto.identity.requestPlcOperationSignature')
  const { operation } = await account.procedure<{ operation: unknown }>(
    'com.atproto.identity.signPlcOperation',
    {
      input: {
        verificationMethods: { atproto: new Signer(key).did() },
        token: pds.emailToken(did, 'plc_operation'),
      },
    },
  )
  await account.procedure('com.atproto.identity.submitPlcOperation', { input: { operation } })
  return before
}
