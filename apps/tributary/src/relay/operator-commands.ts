/** `tributary relay hosts|accounts|bans|consumers|limits|refusals|notices|audit|state|import-hosts`: the operator API, typed. */
import { Option, type Command } from 'commander'
import { attempt } from '../attempt.ts'
import {
  change,
  clientOf,
  filtersOf,
  fullName,
  group,
  list,
  look,
  noneOfItsOwn,
  printUpToLimit,
  readCount,
  readId,
  shared,
  type End,
  type SharedOptions,
  type Subject,
} from '../operator/operator-command.ts'
import { addAudit } from '../operator/audit-command.ts'
import type { Json, OperatorClient } from '../operator/operator-client.ts'
import { printable, textLines } from '../operator/text-table.ts'
import { jsonText } from '../print-json.ts'
import { UsageError } from '../command-errors.ts'
import { listHosts } from '../relay-hosts.ts'
import { importHosts, type ImportOptions } from './import-hosts.ts'

/** For the whole list of a relay. */
const publicListMs = 30_000
const hostColumns =
  'hostname state stateReason lagSeconds lastError accountCount accountQuota throttledCount cursor status desired eventsLastMinute eventsLogged eventsRefused budgets lastErrorAt'.split(
    ' ',
  )

/** Adds them to the command of the relay. @param end called with the exit code. */
export function addOperatorCommands(relay: Command, end: End): void {
  addHostCommands(group(relay, 'hosts', 'the sources of a relay: add, pause, resume, remove, limit'), end)
  addAccountCommands(group(relay, 'accounts', 'accounts of a relay: look up, take down, ask again'), end)
  const bans = group(relay, 'bans', 'domains whose hosts a relay does not read')
  list(bans, 'list', 'list banned domains', 'listDomainBans', 'bans', ['domain', 'reason', 'createdAt'], end)
  const ban: Subject = { look: banOf, unchanged: 'DomainNotBanned' }
  const banned = 'ban a domain and all below it'
  change(bans, 'add <domain>', banned, 'putDomainBan', end, { subject: ban }).option('--reason <text>', 'why')
  change(bans, 'remove <domain>', 'lift the ban of a domain', 'deleteDomainBan', end, { subject: ban })
  const consumers = group(relay, 'consumers', 'who reads from a relay')
  look(consumers, 'list', 'list connected consumers', end, async (client, print) => {
    print(await client.all('listConsumers', 'consumers'), [
      'id',
      'remoteAddress',
      'userAgent',
      'state',
      'position',
      'lag',
      'lagSeconds',
      'bytesSent',
      'connectedAt',
    ])
  })
  change(consumers, 'disconnect <id>', 'end the connection of a consumer', 'disconnectConsumer', end, {
    inputOf: ([id]) => ({ id: readId(id) }),
  })
  addLimitCommands(group(relay, 'limits', 'limits of a relay as a whole'), end)
  const refusals = ['at', 'hostname', 'reason', 'kind', 'did', 'upstreamSeq', 'detail']
  list(
    relay,
    'refusals',
    'list what was refused lately, newest first',
    'listRefusals',
    'refusals',
    refusals,
    end,
  )
    .option('--hostname <host>', 'only of this source')
    .option('--reason <reason>', 'only for this reason')
    .option('--did <did>', 'only of this account')
  const notices = ['at', 'kind', 'subject', 'detail']
  const happened = 'list outages, pauses, quotas and refused crawl requests, newest first'
  list(relay, 'notices', happened, 'listNotices', 'notices', notices, end)
    .option('--subject <host>', 'only of this host, or relay')
    .option('--kind <kind>', 'only of this kind')
  addAudit(relay, end)
  look(
    relay,
    'state',
    'show the numbers and bytes of the event log, and the free disk',
    end,
    async (client, print) => print(await client.query('getLogState', {}, 'headSeq')),
  )
  addImport(relay, end)
}

function addHostCommands(hosts: Command, end: End): void {
  addHostList(hosts, end)
    .option('--hostname <host>', 'only this source')
    .option('--state <state>', 'only sources in this state')
    .addOption(
      new Option('--desired <status>', 'only sources that operators gave this status').choices([
        'enabled',
        'paused',
        'banned',
        'removed',
      ]),
    )
  look(hosts, 'show <hostname>', 'say everything about a source', end, async (client, print, { args }) => {
    const [host = {}] = await client.all('listHosts', 'hosts', { hostname: args[0] })
    print(host)
  })
  const allowed: Subject = { look: hostOf, changes: policyFields }
  const add = 'approve a PDS, after asking it whether it is one; a known source takes the options'
  policyOptions(
    change(hosts, 'add <hostname>', add, 'addHost', end, { subject: allowed }).option(
      '--override-daily-limit',
      'add it even when no addition is left today',
    ),
  )
  const update = 'change what is allowed to a source'
  policyOptions(change(hosts, 'update <hostname>', update, 'updateHost', end, { subject: allowed }))
  const statuses = { pause: 'paused', resume: 'enabled', ban: 'banned', remove: 'removed' }
  for (const [name, status] of Object.entries(statuses)) {
    const summary = `${name} a source; accounts, position and what it brought are kept`
    change(hosts, `${name} <hostname>`, summary, 'setHostStatus', end, {
      inputOf: ([hostname]) => ({ hostname, status }),
      subject: { look: hostOf, changes: ['hostname', 'desired'], shows: ['state', 'stateReason'] },
    })
  }
  const subject: Subject = {
    look: hostOf,
    changes: [],
    shows: ['hostname', 'desired', 'state', 'cursor', 'epoch'],
  }
  change(hosts, 'connect <hostname>', 'dial a source now', 'reconnectHost', end, { subject })
  const disconnect = 'end the connection of a source, and dial it again'
  change(hosts, 'disconnect <hostname>', disconnect, 'disconnectHost', end, { subject })
  change(hosts, 'restart <hostname>', 'read a source from another position', 'resetHostCursor', end, {
    subject,
  })
    .addOption(
      new Option('--position <place>', 'its oldest event, or from now on').choices(['oldest', 'live']),
    )
    .option('--cursor <seq>', 'after this position of the source', readCount)
  change(hosts, 'skip <hostname>', 'move a stuck source on', 'skipHostPosition', end, { subject }).option(
    '--through <seq>',
    'last position that is left out (default: the next one)',
    readCount,
  )
}

/** The sources of a relay, as its operator sees them or as anybody does. */
function addHostList(hosts: Command, end: End): Command {
  const summary = 'list sources; with --public those of any relay, as it tells everybody'
  const command = look(hosts, 'list', summary, end, async (client, print) => {
    const { url, public: isPublic } = command.opts<SharedOptions & { public: boolean }>()
    const { public: _, ...filters } = filtersOf(command)
    if (!isPublic) {
      const rowsUpTo = (limit: number): Promise<Json[]> => client.rows('listHosts', 'hosts', filters, limit)
      return await printUpToLimit(command, rowsUpTo, (rows) => print(rows, hostColumns))
    }
    if (Object.keys(filters).length > 0)
      throw new UsageError('--public lists all: leave out --hostname, --state and --desired')
    const rowsUpTo = (limit: number): Promise<Json[]> =>
      listHosts(url, AbortSignal.timeout(publicListMs), limit)
    const columns = ['hostname', 'status', 'accountCount', 'seq']
    await printUpToLimit(command, rowsUpTo, (rows) => print(rows, columns))
  })
  return command
    .option('--limit <count>', 'at most this many rows', readCount, 1000)
    .option('--public', 'what com.atproto.sync.listHosts says, without a token', false)
}

/** What operators decide about a source. */
const policyFields =
  'hostname desired kind isTrusted validation accountQuota hasOwnQuota eventsPerSecond eventsPerHour eventsPerDay hasOwnRate onRenumbered note'.split(
    ' ',
  )

/** A source as it is listed, with the rates that are in its budgets. */
async function hostOf(client: OperatorClient, [hostname]: readonly string[]): Promise<Json> {
  const [host = {}] = await client.all('listHosts', 'hosts', { hostname })
  const budgets = host['budgets'] === undefined ? [] : client.rowsIn(host, 'budgets')
  const { hour, day } = Object.fromEntries(budgets.map(({ window, limit }) => [window, limit])) as Json
  return { ...host, eventsPerHour: hour, eventsPerDay: day }
}

async function accountOf(client: OperatorClient, [did]: readonly string[]): Promise<Json> {
  return await client.query('getAccount', { did }, 'did')
}

async function banOf(client: OperatorClient, [typed = '']: readonly string[]): Promise<Json> {
  const domain = typed.trim().toLowerCase()
  const ban = (await client.rows('listDomainBans', 'bans')).find((row) => row['domain'] === domain)
  return { domain, isBanned: ban !== undefined, ...(ban && { reason: ban['reason'] }) }
}

function policyOptions(command: Command): void {
  command
    .addOption(new Option('--kind <kind>', 'a PDS, or another relay').choices(['pds', 'relay']))
    .addOption(
      new Option('--validation <mode>', 'how it is validated').choices(['strict', 'lenient', 'default']),
    )
    .option('--account-quota <count>', 'accounts that may be active, or default', readCountOrDefault)
    .option('--events-per-second <count>', 'messages read in a second, or default', readCountOrDefault)
    .option(
      '--events-per-hour <count>',
      'messages read in an hour, 0 for any number, or default',
      readCountOrDefault,
    )
    .option(
      '--events-per-day <count>',
      'messages read in a day, 0 for any number, or default',
      readCountOrDefault,
    )
    .addOption(
      new Option('--on-renumbered <what>', 'what to do when it begins its numbers again').choices([
        'restart',
        'hold',
      ]),
    )
    .option('--is-trusted', 'wide limits')
    .option('--no-is-trusted', 'ordinary limits')
    .option('--note <text>', 'for other operators')
}

function addAccountCommands(accounts: Command, end: End): void {
  look(accounts, 'show <did>', 'say what a relay knows of an account', end, async (client, print, { args }) =>
    print(await client.query('getAccount', { did: args[0] }, 'did')),
  )
  const statuses = [
    ['takedown', 'takendown', 'take an account down, in replay too'],
    ['suspend', 'suspended', 'suspend an account, in replay too'],
    ['restore', 'active', 'lift a takedown or suspension'],
  ] as const
  for (const [name, status, summary] of statuses) {
    change(accounts, `${name} <did>`, summary, 'updateAccountStatus', end, {
      inputOf: ([did]) => ({ did, status }),
      subject: {
        look: accountOf,
        changes: ['did', 'localStatus', 'localReason'],
        shows: ['active', 'status'],
      },
    }).option('--reason <text>', 'why')
  }
  change(accounts, 'recheck <did>', 'ask the host of an account for its status', 'recheckAccount', end)
  change(accounts, 'refresh <did>', 'read the DID document of an account again', 'refreshIdentity', end)
  const columns = ['did', 'status', 'reason', 'createdAt']
  list(
    accounts,
    'takedowns',
    'list accounts that were taken down',
    'listTakedowns',
    'takedowns',
    columns,
    end,
  )
}

function addLimitCommands(limits: Command, end: End): void {
  look(limits, 'show', 'show the limits', end, async (client, print) => {
    const { limits: values, ...rest } = await client.query('getSettings', {}, 'limits')
    print({ ...(values as Json), ...rest })
  })
  change(limits, 'set', 'change limits, at once and for good', 'updateSettings', end, {
    subject: { look: async (client) => (await client.query('getSettings', {}, 'limits'))['limits'] as Json }, // by its lexicon
  })
    .addOption(new Option('--admission <mode>', 'who admits PDSs').choices(['approved', 'open']))
    .addOption(
      new Option('--crawl-requests <on|off>', 'whether crawl requests are accepted').choices(['on', 'off']),
    )
    .option('--account-quota <count>', 'accounts that may be active on one source', readCount)
    .option('--new-sources-per-day <count>', 'new sources in any 24 hours', readCount)
    .option('--source-events-per-second <count>', 'messages read in a second from one source', readCount)
    .option(
      '--source-events-per-hour <count>',
      'messages read in an hour from one source, beside one for each account of its quota; 0: any number',
      readCount,
    )
    .option(
      '--source-events-per-day <count>',
      'messages read in a day from one source, beside ten for each account of its quota; 0: any number',
      readCount,
    )
    .option('--events-per-second <count>', 'messages read in a second from all together', readCount)
    .option('--trusted-hosts <patterns>', 'hosts or *.suffix, with commas', (text) =>
      text.split(',').filter(Boolean),
    )
    .option('--disk-free-mb-min <mb>', 'free disk below which sources are not read', readCount)
}

function addImport(relay: Command, end: End): void {
  shared(relay.command('import-hosts <relay>'))
    .summary('add the hosts of another relay')
    .description('Adds the hosts of another relay that work there, and says what became of each.')
    .option('--dry-run', 'say what would be added, and add nothing')
    .option('--limit <count>', 'add at most this many', readCount)
    .option('--override-daily-limit', 'add them even when no addition is left today')
    .option('--actor <name>', 'who asks, for the audit')
    .action(async (from: string, options: SharedOptions & ImportOptions, command: Command) =>
      end(
        await attempt(fullName(command), async () => {
          const counts: Record<string, number> = {}
          for await (const host of importHosts(clientOf(command, options), from, options)) {
            counts[host.outcome] = (counts[host.outcome] ?? 0) + 1
            process.stdout.write(
              `${options.json ? jsonText(JSON.stringify(host)) : printable(lineOf(host))}\n`,
            )
          }
          if (!options.json) process.stdout.write(textLines(counts))
        }),
      ),
    )
}

function lineOf({
  hostname,
  outcome,
  reason,
}: {
  hostname: string
  outcome: string
  reason?: string
}): string {
  return `${outcome.padEnd(14)}  ${hostname}${reason === undefined ? '' : `: ${reason}`}`
}

function readCountOrDefault(text: string): number | typeof noneOfItsOwn {
  return text === 'default' ? noneOfItsOwn : readCount(text)
}
