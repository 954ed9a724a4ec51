/** Compares what commands print with files in `golden`. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Call, Commands, Outcome } from './commands.ts'

const golden = join(import.meta.dirname, 'golden')

/** Compares texts with their files. Those without a file are written, and the test fails once. */
export function assertGolden(texts: Readonly<Record<string, string>>): void {
  mkdirSync(golden, { recursive: true })
  const isMissing = (name: string): boolean => !existsSync(join(golden, name))
  const missing = Object.keys(texts).filter(isMissing)
  for (const [name, text] of Object.entries(texts)) {
    if (isMissing(name)) writeFileSync(join(golden, name), text)
    assertSame(name, text, readFileSync(join(golden, name), 'utf8'))
  }
  assert.deepEqual(missing, [], 'these were not there and are written: look at them, and run the test again')
}

/** Fails with the first lines that differ alone: the whole of both texts would hide them. */
function assertSame(name: string, text: string, looked: string): void {
  const [is, was] = [text.split('\n'), looked.split('\n')]
  const at = is.findIndex((line, i) => line !== was[i])
  const shown = [is, was].map((lines) => lines.slice(Math.max(at, 0), at + 5).join('\n'))
  assert.ok(text === looked, `${name} from line ${at + 1} on is:\n${shown[0]}\nIt was:\n${shown[1]}`)
}

/** What all files hold. */
export function goldenTexts(): string[] {
  return readdirSync(golden).map((name) => readFileSync(join(golden, name), 'utf8'))
}

/** What came of each call. They run one after the other. */
export async function outcomesOf(calls: readonly Call[], commands: Commands): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const { args, columns } of calls) {
    const run = (): Promise<Outcome> => commands.run(args, columns)
    let outcome = await run()
    // A service that waits for another tries to reach it now and then, for a moment.
    while (args[0] === 'status' && outcome.stdout.includes('connecting')) outcome = await run()
    outcomes.push(outcome)
  }
  return outcomes
}

/** A call and its outcome as text, without what is another one in each run. */
export function described({ args }: Call, outcome: Outcome | undefined, directory: string): string {
  const { code, stdout, stderr } = outcome ?? { code: -1, stdout: '', stderr: '' }
  const places = ['--url', '--operator-token-file']
  const words = args.filter((arg, i) => !places.includes(arg) && !places.includes(args[i - 1] ?? ''))
  const shown = args[0] === 'inspect' ? withoutSizes(stdout) : stdout
  const text = `$ tributary ${words.join(' ')}\n${shown}${withoutProgress(stderr).replace(/^(?=.)/gm, '! ')}exit code ${code}\n`
  const stable = text
    .replaceAll(directory, 'DIRECTORY')
    .replaceAll(/(127\.0\.0\.1|localhost):\d+/g, (address) => address.replaceAll(/\d(?=\d*$)/g, '#'))
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => time.replaceAll(/\d/g, '0'))
    .replaceAll(/in \d+\.\d s$/gm, 'in #.# s')
    .replaceAll(/(isRunning\W+)(true|false)/g, '$1###') // a pass over nothing takes a moment
    .replaceAll(/(diskFreeBytes\W+)\d+/g, '$1###')
    .replaceAll(/tributary_[\w-]{43}/g, `tributary_${'x'.repeat(43)}`)
    .replaceAll(/did:plc:[a-z2-7]{24}/g, `did:plc:${'x'.repeat(24)}`)
  // How often a command tries again in a second is another number in each run.
  const said = new Set<string>()
  const isNew = (line: string): boolean =>
    !line.startsWith('! ') || (!said.has(line) && said.add(line).has(line))
  return stable.split('\n').filter(isNew).join('\n')
}

/** How far a command is, which a terminal writes over again and a pipe gets as lines, as often as there is time for. */
function withoutProgress(text: string): string {
  const [first = '', ...over] = text.split('\r\x1b[2K')
  const shown = [first, ...over.map((line) => line.replace(/^\[[#.]+\].*/, ''))].join('')
  return shown.replaceAll(/^\[[#.]+\].*\n/gm, '')
}

/** What zstd makes of a block is a little else in each version. */
function withoutSizes(text: string): string {
  return text.replaceAll(/\b[0-9a-f]{16}\b/g, '0'.repeat(16)).replaceAll(/\b\d{3}\b/g, '###')
}
