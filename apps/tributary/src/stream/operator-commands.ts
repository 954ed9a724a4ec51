/** `tributary stream collections|jobs|repos|coverage|keys|subscribers|refusals|backup|compact|compaction|audit`: the operator API of a stream, typed. */
import { Option, type Command } from 'commander'
import { hasFields } from '../answer-lists.ts'
import {
  change,
  fullName,
  group,
  list,
  look,
  readCount,
  readId,
  type End,
  type Print,
  type SharedOptions,
  type Subject,
} from '../operator/operator-command.ts'
import { addAudit } from '../operator/audit-command.ts'
import type { Json, OperatorClient } from '../operator/operator-client.ts'
import { printJson } from '../print-json.ts'
import { sayError } from '../say.ts'
import { type CoveredHost, listCoverage } from '../verify/coverage.ts'

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
  const compact = 'take superseded rows out of sealed segments, now'
  const running: Subject = {
    look: async (client) => await client.query('getCompaction', {}, 'isRunning'),
    changes: [],
    shows: ['isRunning'],
  }
  change(stream, 'compact', compact, 'compact', end, { subject: running })
  const compaction = 'say what compaction has done since the start, and what is left'
  look(stream, 'compaction', compaction, end, async (client, print) =>
    print(await client.query('getCompaction', {}, 'isRunning')),
  )
  addAudit(stream, end)
}

function addCollectionCommands(collections: Command, end: End): void {
  look(collections, 'list', 'list watched collections', end, async (client, print) => {
    const answer = await client.query('listCollections', {}, 'revision')
    print(client.rowsIn(answer, 'collections'), ['collection', 'addedAt', 'addedRevision', 'actor'])
    process.stderr.write(`the list has revision ${String(answer['revision'])}\n`)
  })
  const revision = ['--expected-revision <revision>', 'the revision of the list that was looked at'] as const
  const subject = (unchanged: string): Subject => ({ look: collectionOf, unchanged })
  const add = 'watch one more collection'
  change(collections, 'add <collection>', add, 'addCollection', end, {
    subject: subject('CollectionWatched'),
  }).option(...revision, readCount)
  const remove = 'stop watching a collection; its archived records stay'
  change(collections, 'remove <collection>', remove, 'removeCollection', end, {
    subject: subject('CollectionNotWatched'),
  }).option(...revision, readCount)
}

/** A collection as it is listed, and whether it is. */
async function collectionOf(client: OperatorClient, [collection]: readonly string[]): Promise<Json> {
  const answer = await client.query('listCollections')
  const row = client.rowsIn(answer, 'collections').find((each) => each['collection'] === collection)
  const { revision } = answer
  return { revision, collection, isWatched: row !== undefined, ...row }
}

const jobColumns =
  'id host collection cause state error listed pending failed unavailable throughSeq createdAt'.split(' ')

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
  change(jobs, 'start', 'begin backfills, or begin them again', 'startBackfill', end, { tell: tellBegun })
    .option('--hostname <host>', 'read this PDS (default: every PDS that the relay reads)')
    .option('--collection <nsid>', 'the collection to note as the cause')
  const idOf = ([id]: readonly string[]): Json => ({ id: readId(id) })
  const changes = { pause: 'paused', resume: 'active', cancel: 'cancelled' }
  for (const [name, state] of Object.entries(changes))
    change(jobs, `${name} <id>`, `${name} a backfill`, 'setJobState', end, {
      inputOf: (args) => ({ ...idOf(args), state }),
      subject: { look: jobOf, changes: ['id', 'host', 'state'], shows: ['listed', 'pending'] },
    })
  change(jobs, 'retry <id>', 'try again what failed or was unavailable', 'retryJob', end, {
    inputOf: idOf,
    subject: { look: jobOf, changes: [], shows: ['id', 'host', 'state', 'pending', 'failed', 'unavailable'] },
  })
}

/** The backfills that were begun, as they are listed. */
async function tellBegun(client: OperatorClient, answer: Json, print: Print): Promise<void> {
  const ids = new Set(client.rowsIn(answer, 'jobs').map(({ id }) => id))
  const rows = ids.size === 0 ? [] : await client.rows('listJobs', 'jobs')
  print(
    rows.filter(({ id }) => ids.has(id)),
    jobColumns,
  )
  if (ids.size === 0) process.stderr.write('nothing to begin: the relay reads no PDS, as far as is known\n')
}

async function jobOf(client: OperatorClient, [id]: readonly string[]): Promise<Json> {
  return (await client.rows('listJobs', 'jobs')).find((job) => String(job['id']) === id) ?? {}
}

function addRepoCommands(repos: Command, end: End): void {
  look(repos, 'show <did>', 'say what a stream knows of a repository', end, async (client, print, { args }) =>
    print(await repoOf(client, args)),
  )
  change(repos, 'refetch <did>', 'read a repository again as a whole', 'refetchRepo', end, {
    subject: { look: repoOf, changes: [], shows: ['did', 'rev', 'isMarked', 'isWhole', 'isHidden'] },
  })
}

async function repoOf(client: OperatorClient, [did]: readonly string[]): Promise<Json> {
  return await client.query('getRepo', { did }, 'did')
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
  const idOf = ([id]: readonly string[]): Json => ({ id: readId(id) })
  const disconnect = 'end a connection; the subscriber is told its cursor'
  change(subscribers, 'disconnect <id>', disconnect, 'disconnectSubscriber', end, { inputOf: idOf })
}

const filterKinds = { kinds: 'array', collections: 'array', dids: 'array', didCount: 'number' } as const

/** A filter in cells of a table. */
function inWords(filter: unknown): Json {
  if (!hasFields(filter, filterKinds)) return {}
  const { kinds, collections, dids, didCount } = filter as unknown as SubscriberFilter // as its lexicon says
  const more = didCount > dids.length ? ` and ${didCount - dids.length} more` : ''
  return { kinds: kinds.join(' '), collections: collections.join(' '), dids: `${dids.join(' ')}${more}` }
}

function addCoverage(stream: Command, end: End): void {
  const summary = 'say which records of which PDS the archive has, and what is not known; it needs no token'
  look(stream, 'coverage', summary, end, async (_, print, command) => {
    const { url, json } = command.opts<SharedOptions>()
    const hosts: CoveredHost[] = []
    let ofAll: Json = {}
    for await (const host of listCoverage(url, (answer) => (ofAll = ofAllHosts(answer)))) hosts.push(host)
    if (json) return printJson({ ...ofAll, hosts })
    print(hosts.flatMap(rowsOf), ['hostname', 'collections', 'status', 'completeAtSeq', 'reason'])
    const { markedRepositories, pendingTakedownSegments: segments, relayError } = ofAll
    const say = (text: string): void => sayError(`${fullName(command)}: ${text}`)
    if (typeof markedRepositories === 'number' && markedRepositories > 0)
      say(`repositories that are to be read again, because events of them were lost: ${markedRepositories}`)
    if (Array.isArray(segments) && segments.length > 0)
      say(`segments that may hold records of accounts that were taken down: ${segments.join(', ')}`)
    if (typeof relayError === 'string') say(`the relay does not list its PDSs: ${relayError}`)
  })
}

/** A row for all collections of a host that stand alike. */
function rowsOf({ hostname, collections }: CoveredHost): Json[] {
  const groups = Map.groupBy(collections, ({ status, completeAtSeq, reason }) =>
    JSON.stringify([status, completeAtSeq, reason]),
  )
  return Array.from(groups.values(), (group) => {
    const names = group.map(({ collection }) => collection).join(' ')
    const isAll = group.length > 1 && group.length === collections.length
    return { ...group[0], hostname, collections: isAll ? `all ${group.length}` : names }
  })
}

/** What a page of the coverage says that is true of all hosts. It may be of another server. */
function ofAllHosts(answer: unknown): Json {
  const kinds = {
    markedRepositories: 'number',
    pendingTakedownSegments: 'array',
    relayError: 'string',
  } as const
  return Object.fromEntries(
    Object.entries(kinds).flatMap(([name, kind]) =>
      hasFields(answer, { [name]: kind }) ? [[name, answer[name]]] : [],
    ),
  )
}

const keyColumns =
  'id owner actor createdAt revokedAt usedAt requestsLastHour requestsPerHour bytesLastDay megabytesPerDay'.split(
    ' ',
  )

function addKeyCommands(keys: Command, end: End): void {
  look(keys, 'list', 'list keys, the revoked ones too', end, async (client, print) => {
    print(await client.all('listKeys', 'keys'), keyColumns)
  })
  const idOf = ([id]: readonly string[]): Json => ({ id: readId(id) })
  const quotas = (command: Command): Command =>
    command
      .option('--requests-per-hour <count>', 'requests in any hour, 0 for any number', readCount)
      .option('--megabytes-per-day <count>', 'what it may download in 24 hours, 0 for any number', readCount)
  const shows = ['owner', 'requestsPerHour', 'megabytesPerDay', 'revokedAt']
  const made: Subject = {
    look: async (client, _, answer) => await keyOf(client, answer?.['id']),
    changes: [],
    shows,
  }
  quotas(
    change(keys, 'create <owner>', 'create a key, which is shown once', 'createKey', end, { subject: made }),
  )
  const rotate = 'replace a key with a new one for the same owner'
  change(keys, 'rotate <id>', rotate, 'rotateKey', end, { inputOf: idOf, subject: made }).option(
    '--grace-seconds <count>',
    'how long the old key stays valid (default: 0)',
    readCount,
  )
  const subject: Subject = {
    look: async (client, [id]) => await keyOf(client, id),
    changes: ['id', ...shows],
  }
  quotas(
    change(keys, 'limit <id>', 'change what a key is allowed', 'updateKey', end, { inputOf: idOf, subject }),
  )
  const revoked = { ...subject, shows: ['actor'] }
  const revoke = 'take a key back, at once'
  change(keys, 'revoke <id>', revoke, 'revokeKey', end, { inputOf: idOf, subject: revoked, noteOf: dependOn })
}

/** Names those who depend on a key that was revoked. */
function dependOn({ actor, owner }: Json): string | undefined {
  if (actor !== 'settings') return undefined
  return `the settings of the stream name this key, and what they gave it to reads the archive no more. With the key index of tributary up, that is its own index: stop up, remove archive-key in its data directory, and start it again (owner ${String(owner)})`
}

async function keyOf(client: OperatorClient, id: unknown): Promise<Json> {
  const keys = await client.all('listKeys', 'keys')
  return keys.find((key) => String(key['id']) === String(id)) ?? {}
}
