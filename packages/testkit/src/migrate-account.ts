import type { Account, Session } from './account.ts'
import type { Pds } from './pds.ts'
import { callProcedure, callQuery, xrpcUrl } from './xrpc-call.ts'

/**
 * Moves an account with its records and blobs to another PDS, in the order of the atproto account
 * migration guide: new account (deactivated), data, identity, activate, deactivate the old one.
 * `beforeDeactivation` runs while both PDSs hold an active account, the new one being the right
 * one. Afterwards `account` lives on `target` under `handle`.
 */
export async function migrateAccount(
  account: Account,
  target: Pds,
  options: { handle?: string; beforeDeactivation?: () => Promise<void> } = {},
): Promise<void> {
  const { pds: source, did, email, password } = account
  const label = account.handle.split('.')[0] ?? ''
  const handle = options.handle ?? label + target.handleDomain

  const lxm = 'com.atproto.server.createAccount'
  const token = await account.serviceAuth({ aud: target.did, lxm })
  const session = await callProcedure<Session>(target.url, lxm, {
    authorization: `Bearer ${token}`,
    input: { did, handle, email, password },
  })
  const authorization = `Bearer ${session.accessJwt}`

  await callProcedure(target.url, 'com.atproto.repo.importRepo', {
    authorization,
    body: await account.repoCar(),
    contentType: 'application/vnd.ipld.car',
  })
  await copyBlobs(source, target, did, authorization)

  const credentials = await callQuery<Record<string, unknown>>(
    target.url,
    'com.atproto.identity.getRecommendedDidCredentials',
    { authorization },
  )
  await account.procedure('com.atproto.identity.requestPlcOperationSignature')
  const signed = await account.procedure<{ operation: unknown }>('com.atproto.identity.signPlcOperation', {
    input: { ...credentials, token: source.emailToken(did, 'plc_operation') },
  })
  await callProcedure(target.url, 'com.atproto.identity.submitPlcOperation', {
    authorization,
    input: { operation: signed.operation },
  })

  await callProcedure(target.url, 'com.atproto.server.activateAccount', { authorization })
  await options.beforeDeactivation?.()
  await account.deactivate()
  account.continueOn(target, session)
}

async function copyBlobs(source: Pds, target: Pds, did: string, authorization: string): Promise<void> {
  const missing = await callQuery<{ blobs: { cid: string }[] }>(
    target.url,
    'com.atproto.repo.listMissingBlobs',
    { authorization },
  )
  for (const { cid } of missing.blobs) {
    const params = { did, cid }
    const response = await fetch(xrpcUrl(source.url, 'com.atproto.sync.getBlob', params))
    const contentType = response.headers.get('content-type') ?? 'application/octet-stream'
    const body = new Uint8Array(await response.arrayBuffer())
    await callProcedure(target.url, 'com.atproto.repo.uploadBlob', {
      authorization,
      body,
      contentType,
    })
  }
}
