/** `tributary init` and `tributary schema`: a settings file that is right from the start. */
import { existsSync } from 'node:fs'
import { access, constants, open, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { type Setting, settingsJsonSchema } from '@tributary/settings'
import { demoSettings } from '../demo/settings.ts'
import { FileUseError } from '../command-errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { printJson } from '../print-json.ts'
import { systemMessage } from '../system-message.ts'
import { clientSettings } from '../read/client-settings.ts'
import { serviceSettings } from '../service-settings.ts'
import { upSettings } from '../up/settings.ts'

/** What is asked for, with why. All else has a default that fits most. */
const questions = [
  ['dataDirectory', 'Where shall all services keep their data?'],
  ['sources', 'Which PDSs shall be read? Host names with commas; none is fine, they can be added later.'],
  ['labelers', 'Whose labels shall rate organizations? DIDs with commas.'],
  ['feedServiceDid', 'Which DID do callers of the feed name in their tokens?'],
  ['host', 'On which address shall the services listen? 0.0.0.0 is every one.'],
] as const satisfies readonly (readonly [keyof typeof upSettings.fields, string])[]
/** A person who mistypes that often wants something else. */
const attemptsMax = 5

export interface InitOptions {
  /** The file to be made. */
  output: string
  json: boolean
}

/** Asks on stdin and writes the file. An existing file is left alone. Returns the exit code. */
export async function runInit({ output: file, json }: InitOptions): Promise<number> {
  const say = (text: string): void => void process.stderr.write(text)
  const answers: Record<string, unknown> = {}
  const lines = createInterface({ input: process.stdin })
  const typed = lines[Symbol.asyncIterator]()
  try {
    // Before anybody answers for nothing.
    await requirePlace(file)
    for (const [name, question] of questions) {
      const field: Setting<unknown> = upSettings.fields[name]
      const answer = await ask(field, question, typed, say)
      if (answer === undefined) {
        say('tributary init: nothing was written, because an answer is missing\n')
        return exitCodes.failed
      }
      // An absolute path is the same for `up`, which reads a relative one from the folder of the file.
      if (name === 'dataDirectory') answers[name] = resolve(answer || field.format(field.fallback))
      else if (answer !== '')
        answers[name] = field.isList ? answer.split(',').map((item) => item.trim()) : answer
    }
    await writeNew(file, `${JSON.stringify({ up: answers }, undefined, 2)}\n`)
  } catch (error) {
    const message = error instanceof FileUseError ? error.message : systemMessage(error)
    if (message === undefined) throw error
    say(`tributary init: ${message}\n`)
    return exitCodes.io
  } finally {
    lines.close()
  }
  if (json) printJson({ file, up: answers })
  else process.stdout.write(`${file} is written. Start all services with: tributary up --settings ${file}\n`)
  return exitCodes.done
}

/** @throws FileUseError when the file is there, and what the system does when none can be made there. */
async function requirePlace(file: string): Promise<void> {
  if (existsSync(file)) throw taken(file)
  await access(dirname(resolve(file)), constants.W_OK)
}

function taken(file: string): FileUseError {
  return new FileUseError(`${file} exists, and is left as it is`)
}

/** A file that was not written to its end is removed, because the next run would leave it as it is. */
async function writeNew(file: string, text: string): Promise<void> {
  // `wx`: whoever has a file has thought about it.
  await using handle = await open(file, 'wx').catch((error: unknown) => {
    throw error instanceof Error && 'code' in error && error.code === 'EEXIST' ? taken(file) : error
  })
  try {
    await handle.writeFile(text)
    await handle.sync()
  } catch (error) {
    await rm(file, { force: true })
    throw error
  }
}

/** An answer that the setting takes; empty for its default. Undefined when there is none. */
async function ask(
  field: Setting<unknown>,
  question: string,
  typed: AsyncIterator<string>,
  say: (text: string) => void,
): Promise<string | undefined> {
  const fallback = field.fallback === undefined ? '' : field.format(field.fallback)
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    say(`${question}${fallback === '' ? '' : ` [${fallback}]`} `)
    const next = await typed.next()
    if (next.done === true) return undefined
    const answer = next.value.trim()
    try {
      if (answer !== '') field.parse(answer, process.cwd())
      return answer
    } catch (error) {
      if (!(error instanceof Error && error.name === 'FormError')) throw error
      say(`  expected ${error.message}\n`)
    }
  }
  return undefined
}

/** Prints the JSON schema of the settings file. Returns the exit code. */
export function printSchema(): number {
  const specs = [upSettings, ...Object.values(serviceSettings), demoSettings, clientSettings]
  process.stdout.write(`${JSON.stringify(settingsJsonSchema(specs), undefined, 2)}\n`)
  return exitCodes.done
}
