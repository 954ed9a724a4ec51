/**
 * The reference of the feed: both methods as one would first write them, on `@atproto/xrpc-server` and the same
 * database. One plain join of follows and entries for the page, then queries for each entry. It knows no evaluators, no
 * quality rule, no tokens and no cursor, and shows of each record its time only.
 */
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { createServer } from '@atproto/xrpc-server'
import { reportReady } from '@tributary/testkit'
import { loadLexicons } from '@tributary/xrpc'
import Sqlite from 'better-sqlite3'

export interface StockFeedSettings {
  databasePath: string
}

interface Request {
  params: { viewerDid: string }
  limit: number
}

interface Entry {
  uri: string
  did: string
  kind: string
}

const settings = JSON.parse(process.argv[2] ?? '') as StockFeedSettings // reason: written by the scenario.
const sqlite = new Sqlite(settings.databasePath, { readonly: true })
const page = sqlite.prepare<[string, number], Entry>(
  `select entries.uri, entries.did, entries.kind from entries join follows on follows.subject = entries.did
   where follows.viewer = ? order by entries.feedTime desc, entries.uri desc limit ?`,
)
const record = sqlite.prepare<[string], string>('select json from records where uri = ?').pluck()
const handle = sqlite.prepare<[string], string>('select handle from handles where did = ?').pluck()

function select(input: unknown): Entry[] {
  const { params, limit } = (input as { body: Request }).body // reason: as the lexicon says.
  return page.all(params.viewerDid, limit)
}

function parse(uri: string | undefined): { createdAt?: string; displayName?: string } {
  const json = uri === undefined ? undefined : record.get(uri)
  return json === undefined ? {} : (JSON.parse(json) as object) // reason: the index stores objects.
}

function view({ uri, did, kind }: Entry): object {
  const { displayName } = parse(`at://${did}/app.attested.actor.profile/self`)
  const actor = { did, handle: handle.get(did), displayName }
  const content = { $type: 'org.impact.feed.defs#hyperboardView', createdAt: parse(uri).createdAt }
  return { subject: uri, view: { $type: 'org.impact.feed.defs#impactFeedView', kind, actor, content } }
}

const server = createServer([...loadLexicons()])
server.method('org.impact.feed.getFeedSkeleton', ({ input }) => ({
  encoding: 'application/json',
  body: { feed: select(input).map(({ uri }) => ({ subject: uri })) },
}))
server.method('org.impact.feed.getFeed', ({ input }) => ({
  encoding: 'application/json',
  body: { feed: select(input).map(view) },
}))
const listener = server.router.listen(0, '127.0.0.1')
await once(listener, 'listening')
const { port } = listener.address() as AddressInfo // reason: a TCP server that listens has one.
reportReady(`http://127.0.0.1:${port}`, () => process.exit(0))
