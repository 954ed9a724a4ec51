/** HTTP of a host that replays a load: the calls of a PDS and those of a PLC directory. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { cidText } from './cid.ts'
import { encodeCar } from './commit-event.ts'
import { commitAt, lastEvents, repoBlocks } from './load-repo.ts'
import type { LoadSource } from './load-source.ts'

type Answer = { status: number; json: object } | { car: Uint8Array }

const pageSizeMax = 1000
const getRepo = 'com.atproto.sync.getRepo'
const answersAboutRepo = new Set([
  getRepo,
  'com.atproto.sync.getRepoStatus',
  'com.atproto.sync.getLatestCommit',
])
const didPrefix = 'did:key:'

/** Answers as the PDS of the source's accounts, and as the PLC directory of all accounts. */
export function answerLoadRequest(
  source: LoadSource,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const url = new URL(request.url ?? '/', 'http://localhost')
  const name = decodeURIComponent(url.pathname.slice(1))
  const isDocument = name.startsWith('did:')
  const answer = isDocument
    ? didDocument(source, name)
    : answerCall(source, name.replace('xrpc/', ''), url.searchParams)
  if (isDocument && source.directoryDelayMs > 0) setTimeout(send, source.directoryDelayMs, response, answer)
  else send(response, answer)
}

function send(response: ServerResponse, answer: Answer): void {
  if ('car' in answer) {
    response.writeHead(200, { 'content-type': 'application/vnd.ipld.car' }).end(answer.car)
  } else {
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.json))
  }
}

function refusal(status: number, error: string): Answer {
  return { status, json: { error, message: error } }
}

/** The document of an account, in the form that the public directory gives it today. */
function didDocument(source: LoadSource, did: string): Answer {
  const index = source.replay.accountIndexes.get(did)
  const account = source.replay.load.info.accounts[index ?? -1]
  if (index === undefined || account === undefined) return refusal(404, 'NotFound')
  const json = {
    '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/multikey/v1'],
    id: did,
    alsoKnownAs: [`at://${account.handle}`],
    verificationMethod: [
      {
        id: `${did}#atproto`,
        type: 'Multikey',
        controller: did,
        publicKeyMultibase: account.signingKey.slice(didPrefix.length),
      },
    ],
    service: [
      {
        id: '#atproto_pds',
        type: 'AtprotoPersonalDataServer',
        serviceEndpoint: `http://${source.hosts[index % source.hosts.length]}`,
      },
    ],
  }
  return { status: 200, json }
}

function answerCall(source: LoadSource, nsid: string, params: URLSearchParams): Answer {
  if (nsid === '_health') return { status: 200, json: { version: 'load' } }
  if (nsid === 'com.atproto.server.describeServer') {
    const did = `did:web:${encodeURIComponent(source.hosts[source.index] ?? '')}`
    return { status: 200, json: { did, availableUserDomains: [] } }
  }
  if (nsid === 'com.atproto.sync.listRepos') return listRepos(source, params)
  return answersAboutRepo.has(nsid)
    ? answerAbout(source, nsid, params.get('did') ?? '')
    : refusal(501, 'MethodNotImplemented')
}

function answerAbout(source: LoadSource, nsid: string, did: string): Answer {
  const { load, head, accountIndexes } = source.replay
  const account = accountIndexes.get(did) ?? -1
  const event = lastEvents(load, head)[account] ?? -1
  if (event < 0 || !source.has(account)) return refusal(400, 'RepoNotFound')
  const { rev, commit } = commitAt(load, event)
  if (nsid === getRepo) return { car: encodeCar(commit.cid, repoBlocks(load, account, head)) }
  return { status: 200, json: { did, active: true, rev, cid: cidText(commit.cid) } }
}

/** The repositories that have an event so far; a cursor is the index of the next account. */
function listRepos(source: LoadSource, params: URLSearchParams): Answer {
  const { load, head } = source.replay
  const limit = Math.min(Number(params.get('limit') ?? 500), pageSizeMax)
  const repos: object[] = []
  for (const [account, event] of lastEvents(load, head).entries()) {
    if (account < Number(params.get('cursor') ?? 0) || event < 0 || !source.has(account)) continue
    if (repos.length === limit) return { status: 200, json: { repos, cursor: String(account) } }
    const { rev, commit } = commitAt(load, event)
    repos.push({ did: load.info.accounts[account]?.did, head: cidText(commit.cid), rev, active: true })
  }
  return { status: 200, json: { repos } }
}
