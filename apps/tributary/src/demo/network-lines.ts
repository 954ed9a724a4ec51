/** What the demo says of its network: addresses, accounts, and how to write a record. */
import type { Network } from '@tributary/testkit'
import type { Cast } from './cast.ts'
import type { Testkit } from './testkit.ts'

/** Where the network answers. */
export function networkLines({ plcUrl, pds, labeler }: Network): string {
  return `PLC       ${plcUrl}
PDSs      ${pds.map(({ url }) => url).join('  ')}
labeler   ${labeler.url}  ${labeler.did}`
}

/** Who can log in, where, and with what. */
export function accountLines(cast: Cast): string {
  const lines = Object.values(cast).map(
    ({ pds, handle, password, did }) => `  ${pds.url}  ${handle.padEnd(26)} ${password.padEnd(12)} ${did}`,
  )
  return ['Accounts: PDS, handle, password, DID. The first one is the viewer.', ...lines].join('\n')
}

/** In single quotes: the shell puts the time in. */
const shellNow = `'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'`

/** Two lines for a shell. The viewer follows the author, so the record is in the viewer's feed a moment later. */
export function writeLines({ alice }: Cast, { sampleRecord }: Testkit): string {
  const { pds, handle, password, did } = alice
  const post = (method: string, body: unknown): string =>
    `curl -s ${pds.url}/xrpc/${method} -H 'content-type: application/json' -d '${JSON.stringify(body)}'`
  const collection = 'org.impact.claim.activity'
  const record = sampleRecord(collection, { title: 'Written by hand', createdAt: 'NOW' })
  const login = post('com.atproto.server.createSession', { identifier: handle, password })
  const create = post('com.atproto.repo.createRecord', { repo: did, collection, record })
  return `To write a record that the viewer sees, log in as ${handle} once:
  jwt=$(${login} | sed 's/.*"accessJwt":"\\([^"]*\\)".*/\\1/')
  ${create.replace('NOW', shellNow)} -H "authorization: Bearer $jwt"`
}
