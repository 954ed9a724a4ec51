/** What `tributary index …` does with the database of an index, beside its service. */
import { setTimeout as pause } from 'node:timers/promises'
import { indexSettings } from '@tributary/index/settings'
import { type AccountReport, formatDatetime, openGenerations, openIndexReader } from '@tributary/index-store'
import { isDid } from '@tributary/protocol'
import { givenToProgram } from '@tributary/settings'
import { UsageError } from '../command-errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { printable } from '../operator/text-table.ts'
import { printJson } from '../print-json.ts'
import { sayError } from '../say.ts'
import { indexFromSettings } from '../settings-places.ts'
import { ask } from '../status.ts'
import { rebuildText, rebuildTrouble } from './rebuild-text.ts'

/** How often it is looked how far a rebuild has come. */
const lookEveryMs = 500
const plainEveryMs = 5000
/** Time to read what there is of an account: of a large one everything is counted. */
const accountMs = 60_000

/** @throws UsageError for a setting that is not of the database. */
function indexOf(command: string, settings: readonly string[]): ReturnType<typeof indexFromSettings> {
  for (const [name, flag] of givenToProgram(indexSettings, { args: settings, env: {} }))
    if (flag.startsWith('--') && name !== 'databaseUrl' && name !== 'databasePath')
      throw new UsageError(`${flag} is for the index service: leave it out`)
  return indexFromSettings(`index ${command}`, settings)
}

/** Asks for a rebuild, and shows how far it has come until it is done. @returns the exit code. */
export async function rebuild(
  settings: readonly string[],
  { json, wait }: { json: boolean; wait: boolean },
): Promise<number> {
  const { place, url } = indexOf('rebuild', settings)
  await using generations = openGenerations(place)
  const before = await generations.current()
  await generations.askForRebuild()
  if (!wait) {
    if (json) printJson({ generation: before, isDone: false })
    else process.stdout.write('a rebuild is asked for\n')
    return exitCodes.done
  }
  const isTerminal = process.stderr.isTTY
  for (let shownAt = -Infinity; (await generations.current()) === before;) {
    if (isTerminal || performance.now() - shownAt >= plainEveryMs) {
      shownAt = performance.now()
      const progress = rebuildText(await generations.progress(), before)
      const trouble = url === undefined ? undefined : rebuildTrouble((await ask(`${url}/_health`))?.body)
      const text = trouble === undefined ? progress : `${progress}  ${printable(trouble)}`
      process.stderr.write(isTerminal ? `\r\x1b[2K${text}` : `${text}\n`)
    }
    await pause(lookEveryMs)
  }
  if (isTerminal) process.stderr.write('\r\x1b[2K')
  const generation = await generations.current()
  if (json) printJson({ generation, isDone: true })
  else process.stdout.write(`the index is built again: generation ${generation}\n`)
  return exitCodes.done
}

/** Prints what the index holds of an account. @returns the exit code. */
export async function account(
  settings: readonly string[],
  { json, did }: { json: boolean; did: string },
): Promise<number> {
  if (!isDid(did)) {
    sayError(`tributary index account: ${did} is no DID`)
    return exitCodes.usage
  }
  await using reader = openIndexReader(indexOf('account', settings).place)
  const report = await reader.snapshot({ timeoutMs: accountMs }, (view) => view.account(did))
  if (json) printJson(JSON.parse(JSON.stringify(report, plainNumbers)))
  else process.stdout.write(textOf(did, report))
  return exitCodes.done
}

const plainNumbers = (_: string, value: unknown): unknown =>
  typeof value === 'bigint' ? Number(value) : value

function textOf(did: string, report: AccountReport): string {
  const { account: state, handle, records, entries, follows, labels } = report
  const lines: [string, string][] = [
    ['account', did],
    ['handle', handle ?? 'none that is proven'],
  ]
  if (state === undefined) lines.push(['state', 'not known: it has no indexed records'])
  else {
    lines.push(['state', `${state.status}, ${state.hidden === 1n ? 'hidden' : 'shown'}`])
    lines.push(['its host says', state.hostStatus ?? 'not asked since'])
    lines.push(['host asked', state.checkedAt === 0n ? 'never' : formatDatetime(state.checkedAt)])
  }
  lines.push(['follows', String(follows)])
  for (const { collection, count } of records) lines.push(['records', `${count} ${collection}`])
  for (const { kind, count } of entries) lines.push(['entries', `${count} ${kind}`])
  for (const { val, neg, src, cts, exp } of labels) {
    const end = exp === null ? '' : `, until ${formatDatetime(exp)}`
    lines.push(['label', `${neg === 1n ? 'not ' : ''}${val} by ${src}, ${formatDatetime(cts)}${end}`])
  }
  // Labels and handles are words of others.
  return lines.map(([name, value]) => `${name.padEnd(14)} ${printable(value)}\n`).join('')
}
