/** `tributary feed show`: the feed of a viewer, as the service answers it, and why each entry is there. */
import { isDid } from '@tributary/protocol'
import { Help, InvalidArgumentError, Option, type Command } from 'commander'
import { attempt } from '../attempt.ts'
import { hasFields, pagesOf } from '../answer-lists.ts'
import { callService, notOurs } from '../call-service.ts'
import { UsageError } from '../command-errors.ts'
import { type End, fullName, readCount } from '../operator/operator-command.ts'
import { wideOption, writeTable } from '../operator/text-table.ts'
import { jsonOption, printJson } from '../print-json.ts'
import { readTokenFile } from '../read-token-file.ts'
import { sayError } from '../say.ts'
import { defaultUrls } from '../settings-places.ts'
import type { Asked, ExplainOptions } from './explain.ts'

interface FeedEntry {
  subject: string
  view: {
    kind: string
    actor: { did?: string; handle?: string; displayName?: string }
    content: Record<string, unknown>
  }
}

const entryKinds = { subject: 'string', view: 'object' } as const
const viewKinds = { kind: 'string', actor: 'object', content: 'object' } as const

interface ShowOptions extends ExplainOptions {
  url: string
  limit: number
  evaluators?: string[]
  quality?: string[]
  kinds?: string[]
  tokenFile?: string
  explain: boolean
  json: boolean
  wide: boolean
}

/** Entries of one page. The service allows no more. */
const pageMax = 50
/** Pages may be empty and yet not the last ones. A feed that goes on like that is not read to its end. */
const pagesMax = 1000
const qualities = ['high-quality', 'standard', 'draft', 'likely-test']

/** @param end called with the exit code. */
export function addFeedCommands(feed: Command, end: End): void {
  const show = feed
    .command('show <viewer>')
    .summary('show the feed of a viewer')
    .description('Shows the newest entries of the feed of a viewer, who is a DID.')
    .helpOption('-h, --help')
    .option('--url <url>', 'address of the feed', defaultUrls.feed)
    .option('--limit <count>', 'at most this many entries, 1 or more', readLimit, 20)
    .option('--evaluators <dids>', 'evaluators that the viewer trusts', words)
    .addOption(
      new Option(
        '--quality <words>',
        `only organizations that are rated so: ${qualities.join(', ')}`,
      ).argParser(words),
    )
    .option('--kinds <words>', 'only entries of these kinds, such as cert.create', words)
    .option('--token-file <file>', 'file with a service token of the viewer, where the feed asks for one')
    .option('--explain', 'say why each entry is there, out of the index database', false)
    .option('--database-path <path>', 'the index database, with --explain (default: see below)')
    .option(
      '--labelers <dids>',
      'labelers that count, with --explain (default: those of its settings)',
      words,
    )
    .option(...jsonOption)
    .option(...wideOption)
  show.action(async (viewer: string, options: ShowOptions) =>
    end(await attempt(fullName(show), async () => await showFeed(viewer, options))),
  )
  const settings =
    '\n--explain reads the index database that --database-path names. Without it, that is the database in the settings of the index (TRIBUTARY_INDEX_DATABASE_PATH, TRIBUTARY_INDEX_DATABASE_URL or the settings file), or else that of tributary up.'
  show.addHelpText('after', () => new Help().boxWrap(settings, process.stdout.columns || 80))
}

async function showFeed(viewer: string, options: ShowOptions): Promise<void> {
  const { explain, databasePath, labelers, evaluators = [], quality, kinds } = options
  if (!isDid(viewer)) throw new UsageError(`${viewer} is no DID: give that of the viewer, such as did:plc:…`)
  if (!explain && (databasePath !== undefined || labelers !== undefined))
    throw new UsageError('--database-path and --labelers are for --explain')
  if (options.tokenFile !== undefined && options.limit > pageMax)
    throw new UsageError(`--token-file is good for one page: give --limit ${pageMax} or less`)
  const { entries, isCut } = await readEntries(viewer, options)
  if (!explain) return print(entries.map(rowOf), entries, isCut, options)
  const asked: Asked = { viewer, evaluators, quality, kinds }
  const { accountOf, because, isSpokenFor, reasonsFor } = await import('./explain.ts')
  const subjects = entries.map(({ subject }) => subject)
  const { reasons, hasLabelers } = await reasonsFor(subjects, asked, options)
  // Null where nothing speaks for an entry any more.
  const explained = entries.map((entry) => ({
    ...entry,
    because: reasons.get(accountOf(entry.subject)) ?? null,
  }))
  print(
    explained.map((entry) => ({
      ...rowOf(entry),
      because: because(entry.because ?? undefined, asked, hasLabelers),
    })),
    explained,
    isCut,
    options,
  )
  if (explained.length > 0 && !explained.some((entry) => isSpokenFor(entry.because ?? undefined)))
    sayError('tributary feed show: is this the database of that feed? --database-path names another one')
}

function print(
  rows: readonly Record<string, unknown>[],
  entries: readonly FeedEntry[],
  isCut: boolean,
  { json, wide, explain }: ShowOptions,
): void {
  if (isCut) sayError('tributary feed show: one page, because a token is good for one call')
  if (json) return printJson(entries)
  // On a narrow terminal the last ones are left out.
  const columns = ['title', 'kind', 'actor', 'time', 'subject']
  if (explain) columns.push('because')
  const below = {
    columns: ['because'],
    textOf: ({ because }: Record<string, unknown>) => (typeof because === 'string' ? because : ''),
  }
  writeTable(rows, columns, { isWide: wide, below })
  if (rows.length === 0 && !isCut)
    process.stderr.write('tributary feed show: nobody whom the viewer follows did anything\n')
}

/** Page by page, or one page with a token: then `isCut` says whether others follow. @throws as `pagesOf`. */
async function readEntries(
  viewerDid: string,
  { url, limit, evaluators, quality, kinds, tokenFile }: ShowOptions,
): Promise<{ entries: FeedEntry[]; isCut: boolean }> {
  const token = tokenFile === undefined ? undefined : readTokenFile(tokenFile, 'service token')
  const params = {
    $type: 'org.impact.feed.defs#impactFeedParams',
    viewerDid,
    ...(evaluators && { trustedEvaluators: evaluators }),
    ...(quality && { organizationQuality: quality }),
    ...(kinds && { kinds }),
  }
  let entries: FeedEntry[] = []
  let isLast = false
  const ask = async (cursor: string | undefined): Promise<unknown> => {
    const answer = await callService(url, 'org.impact.feed.getFeed', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify({
        feedId: 'org.impact.feed.defs#impactFeed',
        params,
        limit: Math.min(pageMax, limit - entries.length),
        ...(cursor !== undefined && { cursor }),
      }),
    })
    isLast = !hasFields(answer, { cursor: 'string' }) || answer['cursor'] === ''
    return answer
  }
  const pages = pagesOf(url, 'feed', ask, { kinds: entryKinds, pagesMax, mayBeEmpty: true })
  for await (const page of pages) {
    if (!page.every(({ view }) => hasFields(view, viewKinds)))
      throw notOurs(url, 'with entries of another form')
    entries = entries.concat(page as unknown as FeedEntry[]) // they have these fields
    if (entries.length >= limit) break
    if (token !== undefined) return { entries, isCut: !isLast }
  }
  return { entries, isCut: false }
}

function rowOf({ subject, view: { kind, actor, content } }: FeedEntry): Record<string, unknown> {
  return {
    time: content['createdAt'],
    kind,
    actor: actor.displayName ?? actor.handle ?? actor.did,
    title: titleOf(content),
    subject,
  }
}

/** What a person would call it. Each kind of content has another field for that. */
function titleOf(content: Record<string, unknown>): unknown {
  const names = ['title', 'metric', 'summary', 'shortDescription']
  return names.map((name) => content[name]).find((value) => typeof value === 'string' && value !== '')
}

function words(text: string): string[] {
  const items = text.split(',').filter(Boolean)
  if (items.length === 0) throw new InvalidArgumentError('expected words with commas between them.')
  return items
}

function readLimit(text: string): number {
  const limit = readCount(text)
  if (limit === 0) throw new InvalidArgumentError('expected a whole number from 1.')
  return limit
}
