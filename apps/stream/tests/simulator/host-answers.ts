/** What the relay and the host of all accounts answer when the backfill asks them. */
import { FetchError, type safeFetchPieces } from '@tributary/identity'
import { encodeCar } from '@tributary/testkit'
import type { ProcessClock } from '@tributary/testkit/simulation'
import type { StreamConditions } from './conditions.ts'
import type { SimulatedAccount } from './upstream.ts'

const pds = 'pds.example.com'

interface Answer {
  status: number
  body: Buffer
  retryAfter?: string
}

interface Network {
  accounts: readonly SimulatedAccount[]
  clock: ProcessClock
  conditions: StreamConditions
  /** Whether the relay says that it reads the host. */
  isListed: boolean
  onRepoAsked: () => void
  onBroken: (what: string) => void
}

/** Repositories of a page, so that there are several. */
const pageMax = 3
const inactiveErrors: Readonly<Record<string, string>> = {
  takendown: 'RepoTakendown',
  deactivated: 'RepoDeactivated',
}

/** Answers as `safeFetchPieces` does. */
export function hostAnswers(network: Network): typeof safeFetchPieces {
  const { clock, conditions, onBroken } = network
  /** Until when the host has asked to be left alone. It counts as long as nobody sets the clock. */
  let quiet = { untilMs: 0, aheadMs: 0 }
  const aheadMs = (): number => clock.nowMs() - clock.elapsedMs()
  return async (url, { timeoutMs = 5000, signal }, take) => {
    const { hostname, pathname, searchParams } = new URL(url)
    const manner = hostname === pds ? conditions.of('host') : conditions.of('link')
    if (hostname === pds && clock.elapsedMs() < quiet.untilMs && aheadMs() === quiet.aheadMs)
      onBroken(`a host is asked, which wants to be left alone until ${quiet.untilMs}`)
    const isAway = manner === 'silent' || manner === 'down'
    const method = pathname.slice(pathname.lastIndexOf('.') + 1)
    const find = (): Answer => answerTo(network, method, searchParams, manner)
    // Some answers are as old as the question.
    const early = conditions.chance(0.5) ? find() : undefined
    if (method === 'getRepo') network.onRepoAsked()
    const waitMs = manner === 'late' ? conditions.some(500, 15_000) : conditions.some(2, 200)
    return await new Promise((resolve, reject) => {
      signal?.addEventListener('abort', () => reject(new FetchError('the stream stops')), { once: true })
      if (isAway) clock.after(timeoutMs, () => reject(new FetchError('no answer in time')))
      else
        clock.after(waitMs, () => {
          const { status, body, retryAfter } = early ?? find()
          if (retryAfter !== undefined)
            quiet = { untilMs: clock.elapsedMs() + 1000 * Number(retryAfter), aheadMs: aheadMs() }
          const head = { status, headers: retryAfter === undefined ? {} : { 'retry-after': retryAfter } }
          const middle = body.length >> 1
          void take(body.subarray(0, middle), head)
          void take(body.subarray(middle), head)
          resolve(head)
        })
    })
  }
}

function answerTo(network: Network, method: string, params: URLSearchParams, manner: string): Answer {
  const { accounts, isListed, conditions } = network
  if (manner === 'failing') return { ...json(503, {}) }
  if (manner === 'busy') return { ...json(429, {}), retryAfter: '20' }
  if (manner === 'garbled') return { status: 200, body: Buffer.from('{"constructor":1}') }
  if (method === 'listHosts')
    return json(200, { hosts: isListed ? [{ hostname: pds, status: 'active' }] : [] })
  if (method === 'listRepos') return json(200, page(accounts, Number(params.get('cursor') ?? 0)))
  const account = accounts.find(({ did }) => did === params.get('did'))
  if (!account || account.repo.rev === null) return json(400, { error: 'RepoNotFound' })
  const { did, status, repo } = account
  const active = status === 'active'
  if (method === 'getRepoStatus')
    return json(200, active ? { did, active, rev: repo.rev } : { did, active, status })
  if (!active) return json(400, { error: inactiveErrors[status] })
  const former =
    manner === 'older' ? account.former[Math.floor(conditions.some(0, account.former.length))] : undefined
  return { status: 200, body: Buffer.from(former ?? encodeCar(repo.head.cid, repo.blocks())) }
}

function page(accounts: readonly SimulatedAccount[], from: number): object {
  const repos = accounts.slice(from, from + pageMax).flatMap(({ did, repo: { rev }, status }) => {
    if (rev === null) return []
    return [status === 'active' ? { did, rev, active: true } : { did, rev, active: false, status }]
  })
  const to = from + pageMax
  return { repos, ...(to < accounts.length && { cursor: String(to) }) }
}

function json(status: number, value: object): Answer {
  return { status, body: Buffer.from(JSON.stringify(value)) }
}
