import type { ServerResponse } from 'node:http'
import { cidText } from './cid.ts'
import { encodeCar } from './commit-event.ts'
import type { ScriptedAccount } from './scripted-account.ts'

/** What a host needs to answer the calls that relays and backfills make. */
export interface AnsweringHost {
  readonly host: string
  readonly accounts: ReadonlyMap<string, ScriptedAccount>
}

type Answer = { status: number; json: object } | { car: Uint8Array }

const pageSizeMax = 1000

/** Answers the calls that a relay or a backfill makes of a host, as a PDS does. */
export function answerHostRequest(host: AnsweringHost, url: URL, response: ServerResponse): void {
  const answer = answerTo(host, url)
  if ('car' in answer) {
    response.writeHead(200, { 'content-type': 'application/vnd.ipld.car' }).end(answer.car)
  } else {
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.json))
  }
}

function answerTo(host: AnsweringHost, url: URL): Answer {
  const nsid = url.pathname.replace('/xrpc/', '')
  if (nsid === 'com.atproto.server.describeServer') {
    const did = `did:web:${encodeURIComponent(host.host)}`
    return { status: 200, json: { did, availableUserDomains: [] } }
  }
  if (nsid === 'com.atproto.sync.listRepos') return listRepos(host, url.searchParams)

  const account = host.accounts.get(url.searchParams.get('did') ?? '')
  switch (nsid) {
    case 'com.atproto.sync.getRepoStatus':
    case 'com.atproto.sync.getLatestCommit':
    case 'com.atproto.sync.getRepo':
      if (account === undefined) return refusal(400, 'RepoNotFound')
      return answerAbout(nsid, account)
    default:
      return refusal(501, 'MethodNotImplemented')
  }
}

function refusal(status: number, error: string): Answer {
  return { status, json: { error, message: error } }
}

function answerAbout(nsid: string, account: ScriptedAccount): Answer {
  const { did, rev, status } = account
  if (nsid === 'com.atproto.sync.getRepoStatus') {
    return {
      status: 200,
      json: status === undefined ? { did, active: true, rev } : { did, active: false, status },
    }
  }
  if (status !== undefined) return refusal(400, `Repo${status.charAt(0).toUpperCase()}${status.slice(1)}`)
  if (nsid === 'com.atproto.sync.getRepo') return { car: encodeCar(account.head.cid, account.blocks()) }
  return { status: 200, json: { cid: cidText(account.head.cid), rev } }
}

function listRepos(host: AnsweringHost, params: URLSearchParams): Answer {
  const after = params.get('cursor') ?? ''
  const limit = Math.min(Number(params.get('limit') ?? 500), pageSizeMax)
  const later = [...host.accounts.values()].filter(({ did }) => did > after)
  const page = later.toSorted((left, right) => (left.did < right.did ? -1 : 1)).slice(0, limit)
  const repos = page.map(({ did, head, rev, status }) => ({
    did,
    head: cidText(head.cid),
    rev,
    active: status === undefined,
    ...(status === undefined ? {} : { status }),
  }))
  const last = page.at(-1)
  const cursor = later.length > page.length && last !== undefined ? { cursor: last.did } : {}
  return { status: 200, json: { repos, ...cursor } }
}
