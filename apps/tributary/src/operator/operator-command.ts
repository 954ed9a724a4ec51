/**
 * Commands that call the operator API of a running service: options, output and exit codes are the same for all of them.
 * A command belongs to the service under whose command it stands.
 */
import { isDeepStrictEqual } from 'node:util'
import { InvalidArgumentError, type Command } from 'commander'
import { attempt } from '../attempt.ts'
import { hasFields } from '../answer-lists.ts'
import { ServiceError } from '../call-service.ts'
import { jsonOption, printJson } from '../print-json.ts'
import { defaultOperatorTokenFile } from '../read-token-file.ts'
import { sayError } from '../say.ts'
import { sentence } from '../sentence.ts'
import { defaultUrls } from '../settings-places.ts'
import { OperatorClient, relayPrefix, streamPrefix, type Json } from './operator-client.ts'
import { type Below, textLines, wideOption, writeTable } from './text-table.ts'

export interface SharedOptions {
  url: string
  operatorTokenFile: string
  json: boolean
  /** Only of commands that look. */
  wide?: boolean
}
interface ChangeOptions extends SharedOptions {
  actor?: string
  idempotencyKey?: string
}

export type End = (code: number) => void

const prefixes = { relay: relayPrefix, stream: streamPrefix } as const

export function group(parent: Command, name: string, summary: string): Command {
  return parent.command(name).summary(summary).description(sentence(summary)).helpOption('-h, --help')
}

/** The options that every command has. */
export function shared(command: Command): Command {
  const name = serviceOf(command)
  return command
    .helpOption('-h, --help')
    .option('--url <url>', `address of the ${name}`, defaultUrls[name])
    .option('--operator-token-file <file>', 'file with the operator token', defaultOperatorTokenFile)
    .option(...jsonOption)
}

export type Print = (answer: Json | Json[], columns?: readonly string[], below?: Below) => void

/** A command that looks. */
export function look(
  parent: Command,
  usage: string,
  summary: string,
  end: End,
  run: (client: OperatorClient, print: Print, command: Command) => Promise<void>,
): Command {
  const command = shared(parent.command(usage)).summary(summary).description(sentence(summary))
  command.option(...wideOption)
  return command.action(async () => {
    const typed = command.opts<SharedOptions>()
    const printAnswer = printer(typed)
    const print: Print = (answer, columns, below) => {
      printAnswer(answer, columns, below)
      // An empty table may be a mistyped filter.
      if (Array.isArray(answer) && answer.length === 0)
        process.stderr.write(`${fullName(command)}: nothing ${noneOf(filtersOf(command))}\n`)
    }
    end(await attempt(fullName(command), async () => await run(clientOf(command, typed), print, command)))
  })
}

/** A command that lists rows. Options that are added to it are parameters of the method. */
export function list(
  parent: Command,
  name: string,
  summary: string,
  method: string,
  key: string,
  columns: readonly string[],
  end: End,
  below?: Below,
): Command {
  return look(parent, name, summary, end, async (client, print, command) => {
    const rowsUpTo = (limit: number): Promise<Json[]> => client.rows(method, key, filtersOf(command), limit)
    await printUpToLimit(command, rowsUpTo, (rows) => print(rows, columns, below))
  }).option('--limit <count>', 'at most this many rows', readCount, 1000)
}

/** Prints the rows that the `--limit` of a command allows. If nobody typed it, it says that there are more. */
export async function printUpToLimit(
  command: Command,
  rowsUpTo: (limit: number) => Promise<Json[]>,
  print: (rows: Json[]) => void,
): Promise<void> {
  const { limit } = command.opts<{ limit: number }>()
  if (command.getOptionValueSource('limit') !== 'default') return print(await rowsUpTo(limit))
  const rows = await rowsUpTo(limit + 1)
  print(rows.slice(0, limit))
  if (rows.length > limit)
    sayError(`${fullName(command)}: the first ${limit} are shown; --limit ${5 * limit} shows more`)
}

/** The options of one command alone. */
export function filtersOf(command: Command): Record<string, string | number> {
  const {
    url: _,
    operatorTokenFile: __,
    json: ___,
    wide: ____,
    limit: _____,
    ...filters
  } = command.opts<SharedOptions & { limit?: number }>()
  return filters
}

/** Why there is no row, as far as the filters of the command say. */
function noneOf(params: Record<string, string | number>): string {
  const filters = Object.entries(params).map(([name, value]) => `--${name} ${value}`)
  return filters.length === 0 ? 'to list' : `fits ${filters.join(' ')}`
}

/** The thing that a command changes. It is looked at before and after, to say what is so now. */
export interface Subject {
  /**
   * What is so of it. An error of the service means that there is no such thing.
   * @param answer what the change answered; undefined before it.
   */
  look: (client: OperatorClient, args: readonly string[], answer?: Json) => Promise<Json>
  /**
   * Fields that the command may change, all unless they are given. When they are as before, there was nothing to change.
   * A command that does something each time has none.
   */
  changes?: readonly string[]
  /** Further fields that are shown. */
  shows?: readonly string[]
  /** The error by which the service says that it is so already. */
  unchanged?: string
}

interface Change {
  /** The input of the method. Default: the arguments by their names. */
  inputOf?: (args: readonly string[]) => Json
  /** Without one the answer alone says what is so. */
  subject?: Subject
  /** A line for stderr on what follows from the change, by what is so now. */
  noteOf?: (now: Json) => string | undefined
  /** Says what is so where it is not about one thing. */
  tell?: (client: OperatorClient, answer: Json, print: Print) => Promise<void>
}

/** A command that changes something. Options that are added to it, and its arguments by their names, are its input. */
export function change(
  parent: Command,
  usage: string,
  summary: string,
  method: string,
  end: End,
  { inputOf = (args) => argumentsOf(usage, args), subject, noteOf, tell }: Change = {},
): Command {
  const command = shared(parent.command(usage)).summary(summary).description(sentence(summary))
  return command
    .option('--actor <name>', 'who asks, for the audit')
    .option('--idempotency-key <key>', 'a repeat with the same key is not done again')
    .action(async () => {
      const { url, operatorTokenFile, json, ...input } = command.opts<ChangeOptions>()
      const options = { url, operatorTokenFile, json }
      const run = async (): Promise<void> => {
        const client = clientOf(command, options)
        const { args } = command
        const make = (): Promise<Json> => client.change(method, { ...withNulls(input), ...inputOf(args) })
        if (tell) return await tell(client, await make(), printer(options))
        if (!subject) return printer(options)(await make())
        const { isChanged, now } = await changeSubject(subject, client, args, make)
        const note = noteOf?.(now)
        if (note !== undefined) sayError(`${fullName(command)}: ${note}`)
        if (json) return printJson({ ...now, ...(isChanged !== undefined && { isChanged }) })
        if (isChanged === false) process.stdout.write('nothing to change\n')
        printer(options)(now)
      }
      end(await attempt(fullName(command), run))
    })
}

/** Makes a change. `isChanged` is undefined for one that does something each time. */
async function changeSubject(
  { look, changes, shows = [], unchanged }: Subject,
  client: OperatorClient,
  args: readonly string[],
  make: () => Promise<Json>,
): Promise<{ isChanged: boolean | undefined; now: Json }> {
  const before = await unlessRefused(look(client, args), () => true)
  const answer = await unlessRefused(make(), (error) => error === unchanged)
  const after = await unlessRefused(look(client, args, answer), () => true)
  const said = Object.entries(answer).filter(([, value]) => typeof value !== 'object')
  const now = { ...Object.fromEntries(said), ...pick(after, changes && [...changes, ...shows]) }
  const isSame = isDeepStrictEqual(pick(before, changes), pick(after, changes))
  return { isChanged: changes?.length === 0 ? undefined : !isSame, now }
}

/** The answer, or nothing when the service refuses with an error that is expected. */
async function unlessRefused(call: Promise<Json>, isExpected: (error: string) => boolean): Promise<Json> {
  try {
    return await call
  } catch (error) {
    if (error instanceof ServiceError && isExpected(error.error)) return {}
    throw error
  }
}

function pick(from: Json, names: readonly string[] = Object.keys(from)): Json {
  return Object.fromEntries(names.flatMap((name) => (from[name] === undefined ? [] : [[name, from[name]]])))
}

/** The arguments by their names: `add <hostname>` with one argument gives `{ hostname }`. */
function argumentsOf(usage: string, args: readonly string[]): Json {
  const names = Array.from(usage.matchAll(/<(\w+)>/g), ([, name = '']) => name)
  return Object.fromEntries(names.map((name, at) => [name, args[at]]))
}

export function clientOf(command: Command, { url, operatorTokenFile }: SharedOptions): OperatorClient {
  return new OperatorClient(url, operatorTokenFile, prefixes[serviceOf(command)])
}

/** The service under whose command a command stands. */
function serviceOf(command: Command): keyof typeof prefixes {
  for (let each: Command | null = command; each; each = each.parent) {
    const name = each.name()
    if (name === 'relay' || name === 'stream') return name
  }
  throw new Error(`${command.name()} stands under the command of no service`)
}

function printer({ json, wide = false }: SharedOptions): Print {
  return (answer, columns = [], below) => {
    if (json) printJson(answer)
    else if (Array.isArray(answer)) writeTable(answer.map(inWords), columns, { isWide: wide, below })
    else process.stdout.write(textLines(inWords(answer)))
  }
}

type Budget = Record<'limit' | 'left' | 'waitSeconds' | 'refillSeconds', number> & { window: string }

/** What is left of a source's rates, in a form that fits a cell. */
function inWords(row: Json): Json {
  const { budgets } = row
  if (!Array.isArray(budgets) || !budgets.every((budget) => hasFields(budget, {}))) return row
  // As the lexicon of listHosts says.
  const words = (budgets as Budget[]).map(({ window, limit, left, waitSeconds, refillSeconds }) => {
    const wait = waitSeconds === 0 ? '' : `, next in ${waitSeconds} s`
    const refill = refillSeconds === 0 ? '' : `, all in ${refillSeconds} s`
    return `${left} of ${limit} this ${window}${wait}${refill}`
  })
  return { ...row, budgets: words.join('; ') }
}

/** As it is typed: `tributary relay hosts list`. */
export function fullName(command: Command): string {
  return command.parent ? `${fullName(command.parent)} ${command.name()}` : command.name()
}

export function readCount(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('expected a whole number from 0.')
  return Number(text)
}

/** The `<id>` of a command. Commander does not name arguments that are read later. @throws InvalidArgumentError */
export function readId(text = ''): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError(`"${text}" is no id, which is a whole number`)
  return Number(text)
}

/** Options cannot be null, which takes a value of its own back. */
export const noneOfItsOwn: unique symbol = Symbol('default')

function withNulls(input: Json): Json {
  return Object.fromEntries(
    Object.entries(input).map(([name, value]) => [name, value === noneOfItsOwn ? null : value]),
  )
}
