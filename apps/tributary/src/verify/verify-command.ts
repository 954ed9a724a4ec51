/** `tributary verify`: three things can be checked, and each has options of its own. */
import type { Command } from 'commander'
import { exitCodes } from '../exit-codes.ts'
import type { End } from '../operator/operator-command.ts'
import { readCount } from '../read/start-position.ts'
import type { VerifyLiveOptions } from './verify-live.ts'

interface VerifyOptions extends Omit<VerifyLiveOptions, 'live' | 'plc'> {
  live?: string
  plc?: string
  archive?: string
  repo?: string
  apiKeyFile?: string
  accounts?: number
  behind?: number
}

const usualPlc = 'https://plc.directory'

/** Adds the command to the program. @param end called with the exit code. */
export function addVerifyCommand(program: Command, end: End): void {
  program
    .command('verify')
    .summary('check what a relay emits, the archive of a stream, or a repository')
    .description(
      'With --live it reads the firehose of any relay and checks every message: signature, operations, order, and that each account continues where it was. Keys are those of today: a cursor before a change of keys shows faults that are none. With --archive it downloads every segment of a stream and checks every checksum, index and filter, and with --accounts it compares so many accounts with their hosts. With --repo it fetches the repository of one account from its host, checks its signature, tree and records, and with --archive compares it with what the stream has of the account. Prints each fault and the counts; exits with 1 when there was a fault, and with 69 when a host did not answer.',
    )
    .option('--live <url>', 'address of the relay')
    .option('--archive <url>', 'address of the stream')
    .option('--repo <did>', 'the account whose repository is checked')
    .option('--accounts <count>', 'compare so many accounts of the archive with their hosts', readCount)
    .option('--behind <seconds>', 'how long a stream may be behind its hosts (default: 10)', readCount)
    .option('--api-key-file <file>', 'file with the key for the archive')
    .option('--plc <url>', `the PLC directory (default: ${usualPlc})`)
    .option('--cursor <seq>', 'start after this seq instead of now', readCount)
    .option('--for <seconds>', 'end after so many seconds', readCount)
    .option('--count <messages>', 'end after so many messages', readCount)
    .option('--allowed-private-hosts <hosts>', 'hosts that may be on private addresses')
    .option('--json', 'print JSON: live one object a line, and otherwise one value', false)
    .action(async (options: VerifyOptions) => end(await run(options)))
}

/** The options that only some checks have. */
const ownOptions = [
  'live',
  'archive',
  'repo',
  'apiKeyFile',
  'accounts',
  'behind',
  'cursor',
  'for',
  'count',
  'plc',
  'allowedPrivateHosts',
] as const

type OwnOption = (typeof ownOptions)[number]

/** Nothing that is typed is ignored without a word. */
async function run({ live, archive, repo, plc, ...rest }: VerifyOptions): Promise<number> {
  const options = { ...rest, plc: plc ?? usualPlc }
  const given = new Set<OwnOption>(
    ownOptions.filter((name) => ({ live, archive, repo, plc, ...rest })[name] !== undefined),
  )
  // Accounts are looked up in the network by all checks but that of an archive by itself.
  const lookups = ['plc', 'allowedPrivateHosts'] as const
  const isOnly = (...names: OwnOption[]): boolean => given.isSubsetOf(new Set([...names, ...lookups]))
  if (live !== undefined && isOnly('live', 'cursor', 'for', 'count')) {
    const { runVerifyLive } = await import('./verify-live.ts')
    return await runVerifyLive({ ...options, live })
  }
  const isOfRepo =
    isOnly('repo') || (archive !== undefined && isOnly('repo', 'archive', 'apiKeyFile', 'behind'))
  if (repo !== undefined && isOfRepo) {
    const { runVerifyRepo } = await import('./verify-repo.ts')
    return await runVerifyRepo({ ...options, repo, ...(archive !== undefined && { archive }) })
  }
  const isOfArchive = isOnly('archive', 'apiKeyFile', 'accounts', 'behind')
  const isOfAccounts = given.has('behind') || lookups.some((name) => given.has(name))
  if (archive !== undefined && isOfArchive && (!isOfAccounts || given.has('accounts'))) {
    const { runVerifyArchive } = await import('./verify-archive.ts')
    return await runVerifyArchive({ ...options, archive })
  }
  process.stderr.write(
    'tributary verify: give --live, with --cursor, --for or --count; or --archive, with --api-key-file, --accounts and then --behind; or --repo, with --archive and then --api-key-file and --behind; and --plc or --allowed-private-hosts, but not with --archive alone\n',
  )
  return exitCodes.usage
}
