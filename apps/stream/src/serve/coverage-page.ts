import type { RouteContext, XrpcServer } from '@tributary/xrpc'
import type { HostCoverage } from '../backfill/coverage.ts'
import type { ReadCoverage } from './coverage-method.ts'
import { escaped, htmlPage } from './html-page.ts'

/** PDSs of one page. Each has a row for every watched collection. */
const hostsPerPage = 20
/** The page fetches nothing and runs nothing, whatever a PDS has it say. */
const policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

const style = `
dt { font-weight: bold }
.unknown { background: #fff3cd; color: #000 }`

/** Adds `/coverage`: what `getCoverage` answers, as a page for a browser. */
export function serveCoveragePage(server: XrpcServer, read: ReadCoverage): void {
  server.route('GET', '/coverage', async ({ request, reply, clientAddress }: RouteContext) => {
    const after = new URL(request.url, 'http://localhost').searchParams.get('cursor') ?? ''
    const covered = await read(clientAddress, after, hostsPerPage)
    const { hosts, cursor, revision, headSeq, markedRepositories, relayError } = covered
    const pending = covered.pendingTakedownSegments
    const facts: [string, string][] = [
      ['Newest seq', String(headSeq)],
      ['Revision of the watched collections', String(revision)],
      ['Repositories that are to be read again', String(markedRepositories)],
      ['Segments that takedowns have yet to leave', pending.length === 0 ? 'none' : pending.join(', ')],
    ]
    if (relayError !== undefined) facts.push(['The relay does not list its PDSs', relayError])
    const parts = [
      listOf(facts),
      ...(hosts.length === 0 ? ['<p>No PDS is known.</p>'] : hosts.map(sectionOf)),
      cursor === undefined ? '' : `<p><a href="?cursor=${encodeURIComponent(cursor)}">Next PDSs</a></p>`,
      '<p><a href="tail">Events as they happen</a></p>',
    ]
    const page = htmlPage({ title: 'Coverage of this stream', style, body: parts.join('\n') })
    return reply
      .header('content-security-policy', policy)
      .header('cache-control', 'no-store')
      .type('text/html; charset=utf-8')
      .send(page)
  })
}

function sectionOf({ hostname, collections, pending, failed, unavailable }: HostCoverage): string {
  // Most often all collections of a PDS stand alike.
  const alike = Map.groupBy(collections, ({ status, completeAtSeq, reason }) =>
    status === 'unknown' ? `unknown: ${reason}` : `complete: ${wholeSince(completeAtSeq)}`,
  )
  const groups = Array.from(alike, ([words, group]) => {
    const names = group.map(({ collection }) => escaped(collection)).join(', ')
    return `<dt class="${group[0]?.status}">${escaped(words)}</dt><dd>${names}</dd>`
  })
  return `<h2>${escaped(hostname)}</h2>
<p>Repositories: ${pending} still to be read, ${failed} could not be read, ${unavailable} unavailable at their PDS.</p>
<dl>${groups.join('\n')}</dl>`
}

/** @param seq when everything from before was there; 0 when there was nothing before. */
function wholeSince(seq = 0): string {
  return seq === 0
    ? 'every event since the stream began'
    : `what there was before seq ${seq}, and every event since`
}

function listOf(facts: readonly [string, string][]): string {
  return `<dl>${facts.map(([name, value]) => `<dt>${escaped(name)}</dt><dd>${escaped(value)}</dd>`).join('\n')}</dl>`
}
