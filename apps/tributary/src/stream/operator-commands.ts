/** `tributary stream collections|jobs|repos|coverage|keys|subscribers|refusals|backup|compact|compaction|audit`: the operator API of a stream, typed. */
import { Option, type Command } from 'commander'
import { callService } from '../call-service.ts'
import {
  change,
  group,
  list,
  look,
  readCount,
  type ChangeWords,
  type End,
  type SharedOptions,
} from '../operator/operator-command.ts'
import type { Json, OperatorClient } from '../operator/operator-client.ts'

/** Adds them to the command of the stream. @param end called with the exit code. */
export function addStreamOperatorCommands(stream: Command, end: End): void {
  addCollectionCommands(group(stream, 'collections', 'the collections whose records are kept'), end)
  addJobCommands(group(stream, 'jobs', 'backfills: the repositories of a PDS, to be made whole'), end)
  addRepoCommands(group(stream, 'repos', 'repositories: what is known of one, and reading it again'), end)
  addCoverage(stream, end)
  addKeyCommands(group(stream, 'keys', 'keys of the archive: who may download it, and how much'), end)
  addSubscriberCommands(group(stream, 'subscribers', 'who reads the live stream'), end)
  const refusals = ['at', 'reason', 'kind', 'did', 'upstreamSeq', 'detail']
  const refused = 'list what was refused of the relay lately, newest first'
  list(stream, 'refusals', refused, 'listRefusals', 'refusals', refusals, end)
    .option('--reason <reason>', 'only for this reason')
    .option('--did <did>', 'only of this account')
  const backup = 'copy the data of a stream that runs, to a directory under its backups'
  change(stream, 'backup <name>', backup, 'backUp', end)
  change(stream, 'compact', 'take superseded rows out of sealed segments, now', 'compact', end)
  const compaction = 'say what compaction has done since the start, and what is left'
  look(stream, 'compaction', compaction, end, async (client, print) =>
    print(await client.query('getCompaction')),
  )
  const audit = ['at', 'actor', 'operation', 'subject', 'before', 'after']
  list(stream, 'audit', 'list what was changed and by whom, newest first', 'listAudit', 'audit', audit, end)
}

function addCollectionCommands(collections: Command, end: End): void {
  look(collections, 'list', 'list watched collections', end, async (client, print) => {
    const { collections: rows } = await client.query('listCollections')
    print(rows as Json[], ['collection', 'addedAt', 'addedRevision', 'actor']) // as its lexicon says
  })
  const revision = ['--expected-revision <revision>', 'the revision that was looked at'] as const
  const add = 'watch one more collection'
  const added: ChangeWords = {
    say: (answer) => {
      const { collection, addedAt, addedRevision, actor } = answer['collection'] as WatchedCollection // by its lexicon
      return `${collection} is watched, added by ${actor} at ${addedAt} with revision ${addedRevision}`
    },
    unchanged: { error: 'CollectionWatched', look: whatIsWatched },
  }
  change(collections, 'add <collection>', add, 'addCollection', end, undefined, added).option(
    ...revision,
    readCount,
  )
  const remove = 'stop watching a collection; its archived records stay'
  const removed: ChangeWords = {
    say: ({ revision, collection }) => {
      const { collection: name } = collection as WatchedCollection // by its lexicon
      return `${name} is not watched, and its archived records stay; the revision is ${String(revision)}`
    },
    unchanged: { error: 'CollectionNotWatched', look: whatIsWatched },
  }
  change(collections, 'remove <collection>', remove, 'removeCollection', end, undefined, removed).option(
    ...revision,
    readCount,
  )
}

interface WatchedCollection {
  collection: string
  addedAt?: string
  addedRevision?: number
  actor?: string
}

/** The revision, and the collection as it is listed; its name alone when it is not watched. */
async function whatIsWatched(client: OperatorClient, [name = '']: readonly string[]): Promise<Json> {
  const answer = await client.query('listCollections')
  const rows = answer['collections'] as WatchedCollection[] // by its lexicon
  const collection = rows.find((row) => row.collection === name) ?? { collection: name }
  return { revision: answer['revision'], collection }
}

const jobColumns =
  'id host collection cause state listed pending failed unavailable throughSeq createdAt error'.split(' ')

function addJobCommands(jobs: Command, end: End): void {
  const states = ['active', 'paused', 'cancelled', 'done']
  list(jobs, 'list', 'list backfills, newest first', 'listJobs', 'jobs', jobColumns, end)
    .option('--hostname <host>', 'only of this PDS')
    .addOption(new Option('--state <state>', 'only backfills in this state').choices(states))
  const repos = 'list repositories of a backfill that are not whole, and why'
  const repoColumns = ['did', 'state', 'attempts', 'nextAt', 'detail']
  look(jobs, 'repos <id>', repos, end, async (client, print, { args }) =>
    print(await client.rows('listJobRepos', 'repos', { id: args[0] }), repoColumns),
  )
  change(jobs, 'start', 'begin backfills, or begin them again', 'startBackfill', end)
    .option('--hostname <host>', 'read this PDS (default: every PDS that the relay reads)')
    .option('--collection <nsid>', 'the collection to note as the cause')
  const idOf = ([id]: readonly string[]): Json => ({ id: readCount(id ?? '') })
  const changes = { pause: 'paused', resume: 'active', cancel: 'cancelled' }
  for (const [name, state] of Object.entries(changes))
    change(jobs, `${name} <id>`, `${name} a backfill`, 'setJobState', end, (args) => ({
      ...idOf(args),
      state,
    }))
  change(jobs, 'retry <id>', 'try again what failed or was unavailable', 'retryJob', end, idOf)
}

function addRepoCommands(repos: Command, end: End): void {
  look(repos, 'show <did>', 'say what a stream knows of a repository', end, async (client, print, { args }) =>
    print(await client.query('getRepo', { did: args[0] })),
  )
  change(repos, 'refetch <did>', 'read a repository again as a whole', 'refetchRepo', end)
}

const subscriberColumns =
  'id remoteAddress state position lag bytesSent kinds collections dids connectedAt userAgent'.split(' ')

interface SubscriberFilter {
  kinds: string[]
  collections: string[]
  dids: string[]
  didCount: number
}

function addSubscriberCommands(subscribers: Command, end: End): void {
  const summary = 'list connected subscribers, the oldest connection first'
  look(subscribers, 'list', summary, end, async (client, print, command) => {
    const rows = await client.rows('listSubscribers', 'subscribers')
    const isJson = command.opts<SharedOptions>().json
    print(
      isJson ? rows : rows.map(({ filter, ...row }) => ({ ...row, ...inWords(filter) })),
      subscriberColumns,
    )
  })
  const idOf = ([id]: readonly string[]): Json => ({ id: readCount(id ?? '') })
  const disconnect = 'end a connection; the subscriber is told its cursor'
  change(subscribers, 'disconnect <id>', disconnect, 'disconnectSubscriber', end, idOf)
}

/** A filter in cells of a table. */
function inWords(filter: unknown): Json {
  const { kinds, collections, dids, didCount } = filter as SubscriberFilter // as its lexicon says
  const more = didCount > dids.length ? ` and ${didCount - dids.length} more` : ''
  return { kinds: kinds.join(' '), collections: collections.join(' '), dids: `${dids.join(' ')}${more}` }
}

interface CoveredHost {
  hostname: string
  collections: { collection: string; status: string; completeAtSeq?: number; reason?: string }[]
}

function addCoverage(stream: Command, end: End): void {
  const summary = 'say which records of which PDS the archive has, and what is not known; it needs no token'
  look(stream, 'coverage', summary, end, async (_, print, command) => {
    const { url } = command.opts<SharedOptions>()
    const rows: Json[] = []
    for (let cursor: string | undefined = ''; cursor !== undefined;) {
      const method = `network.social.stream.getCoverage?limit=1000${cursor && `&cursor=${encodeURIComponent(cursor)}`}`
      const signal = AbortSignal.timeout(30_000)
      const page = (await callService(url, method, { signal })) as { hosts: CoveredHost[]; cursor?: string } // by its lexicon
      for (const { hostname, collections } of page.hosts)
        rows.push(...collections.map((collection) => ({ hostname, ...collection })))
      cursor = page.cursor
    }
    print(rows, ['hostname', 'collection', 'status', 'completeAtSeq', 'reason'])
  })
}

const keyColumns =
  'id owner actor createdAt revokedAt usedAt requestsLastHour requestsPerHour bytesLastDay megabytesPerDay'.split(
    ' ',
  )

function addKeyCommands(keys: Command, end: End): void {
  look(keys, 'list', 'list keys, the revoked ones too', end, async (client, print) => {
    const { keys: rows } = await client.query('listKeys')
    print(rows as Json[], keyColumns) // as its lexicon says
  })
  const idOf = ([id]: readonly string[]): Json => ({ id: readCount(id ?? '') })
  const quotas = (command: Command): Command =>
    command
      .option('--requests-per-hour <count>', 'requests in any hour, 0 for any number', readCount)
      .option('--megabytes-per-day <count>', 'what it may download in 24 hours, 0 for any number', readCount)
  quotas(change(keys, 'create <owner>', 'create a key, which is shown once', 'createKey', end))
  change(
    keys,
    'rotate <id>',
    'replace a key with a new one for the same owner',
    'rotateKey',
    end,
    idOf,
  ).option('--grace-seconds <count>', 'how long the old key stays valid (default: 0)', readCount)
  quotas(change(keys, 'limit <id>', 'change what a key is allowed', 'updateKey', end, idOf))
  change(keys, 'revoke <id>', 'take a key back, at once', 'revokeKey', end, idOf)
}
