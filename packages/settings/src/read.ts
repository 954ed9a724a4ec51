import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { closestName } from './closest-name.ts'
import {
  flagName,
  knownPrefixes,
  settingsFileVariable,
  sharedNames,
  variableName,
  variablesOf,
  type SettingsOf,
  type SettingsSpec,
} from './define.ts'
import { FormError, type Setting } from './setting.ts'
import { SettingsError, type SettingsProblem } from './settings-error.ts'

export interface SettingsSources {
  /** Usually process.env. An empty value counts as not given. */
  env: Readonly<Record<string, string | undefined>>
  /** Usually process.argv.slice(2): `--name value`, `--name=value`, `--flag`, `--no-flag`. */
  args?: readonly string[]
  /** A settings file to use when neither --settings nor TRIBUTARY_SETTINGS names one. It must exist. */
  file?: string
}

/** One value as someone wrote it: under which name, which text, and where relative paths start. */
interface Written {
  name: string
  text: string
  directory: string
  /** Given for all programs. */
  isShared?: true
}

/** What was given, by the names of the settings. */
type Given = ReadonlyMap<string, Written>

/**
 * Reads a program's settings: flags win over variables, variables over the settings file, that over defaults.
 * Throws SettingsError with every problem at once: values of the wrong form, missing ones, and unknown names.
 */
export function readSettings<S extends SettingsSpec>(spec: S, sources: SettingsSources): SettingsOf<S> {
  const problems: SettingsProblem[] = []
  const given = readGiven(spec, sources, problems)
  for (const [one, other] of spec.alternatives) {
    const names = [given.get(one)?.name, given.get(other)?.name].filter((name) => name !== undefined)
    if (names.length === 2)
      problems.push({ name: names.join(' and '), value: undefined, expected: 'one of them' })
  }

  const values: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(spec.fields)) {
    const written = given.get(name)
    if (written !== undefined) {
      values[name] = parse(field, written, problems)
    } else if (field.fallback !== undefined) {
      // Read like any other value, so that a default path becomes absolute too.
      values[name] = field.parse(field.format(field.fallback), process.cwd())
    } else if (field.isRequired) {
      problems.push({
        name: `${variableName(spec.prefix, name)} or ${flagName(name)}`,
        value: undefined,
        expected: `${field.form}, because this setting has no default`,
      })
    }
  }
  if (problems.length > 0) throw new SettingsError(problems)
  return Object.freeze(values) as SettingsOf<S> // every field of the spec was just filled by its own parse or fallback
}

/**
 * Where each setting was given that somebody gave to this very program: the flag, the variable, or the file and its key.
 * What was given for all programs is left out. Values are not looked at.
 */
export function givenSettings(spec: SettingsSpec, sources: SettingsSources): ReadonlyMap<string, string> {
  const own = [...readGiven(spec, sources, [])].filter(([, { isShared }]) => isShared !== true)
  return new Map(own.map(([name, written]) => [name, written.name]))
}

function readGiven(spec: SettingsSpec, sources: SettingsSources, problems: SettingsProblem[]): Given {
  const fromArgs = readArgs(spec, sources.args ?? [], problems)
  const fromEnv = readEnv(spec, sources.env, problems)
  const file = fromArgs.settingsFile ?? (sources.env[settingsFileVariable] || sources.file)
  const fromFile = file === undefined ? new Map<string, Written>() : readFile(spec, file, problems)
  return new Map([...fromFile, ...fromEnv, ...fromArgs.values])
}

function parse(field: Setting<unknown>, written: Written, problems: SettingsProblem[]): unknown {
  try {
    return field.parse(written.text, written.directory)
  } catch (error) {
    if (!(error instanceof FormError)) throw error
    const value = field.isSecret ? '(not shown)' : withoutPassword(written.text)
    problems.push({ name: written.name, value, expected: error.message })
    return undefined
  }
}

function readArgs(
  spec: SettingsSpec,
  args: readonly string[],
  problems: SettingsProblem[],
): { values: Map<string, Written>; settingsFile: string | undefined } {
  const names = new Map(Object.keys(spec.fields).map((name) => [flagName(name), name]))
  const values = new Map<string, Written>()
  let settingsFile: string | undefined
  const once = (flag: string, isGiven: boolean): void => {
    if (isGiven) problems.push({ name: flag, value: undefined, expected: 'to be given once' })
  }
  const rest = [...args]
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    const [, flag = arg, inline] = /^(--[^=]+)=(.*)$/s.exec(arg) ?? []
    const name = names.get(flag)
    const field = name === undefined ? undefined : spec.fields[name]
    const negated = names.get(flag.replace(/^--no-/, '--'))
    if (name !== undefined && field !== undefined) {
      const given = inline ?? (field.isFlag ? 'true' : takeValue(rest))
      if (given === undefined) problems.push({ name: flag, value: undefined, expected: field.form })
      if (!field.isList) once(flag, values.has(name))
      const earlier = field.isList ? values.get(name)?.text : undefined
      const text = earlier === undefined ? given : `${earlier},${given}`
      if (text !== undefined) values.set(name, { name: flag, text, directory: process.cwd() })
    } else if (negated !== undefined && spec.fields[negated]?.isFlag === true && inline === undefined) {
      once(flag, values.has(negated))
      values.set(negated, { name: flag, text: 'false', directory: process.cwd() })
    } else if (flag === '--settings') {
      once(flag, settingsFile !== undefined)
      settingsFile = inline ?? takeValue(rest)
      if (settingsFile === undefined) problems.push({ name: flag, value: undefined, expected: 'a path' })
    } else {
      const value = inline ?? (flag.startsWith('--') ? takeValue(rest) : undefined)
      const expected = flag.startsWith('-')
        ? `a known flag, ${perhaps(flag, names.keys())}`
        : 'a flag or a command, see --help'
      problems.push({ name: flag, value: shownOf(flag, value), expected })
    }
  }
  return { values, settingsFile }
}

/** The value after a flag, unless another flag follows. One that begins with `--` is given as `--name=value`. */
function takeValue(rest: string[]): string | undefined {
  return rest[0]?.startsWith('--') ? undefined : rest.shift()
}

/** The value of an unknown name, for a report. It may be a misspelled secret. */
function shownOf(name: string, value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  return /key|token|secret|password/i.test(name) ? '(not shown)' : withoutPassword(value)
}

/** A URL may have a user name and a password before the host. */
function withoutPassword(text: string): string {
  return text.replaceAll(/:\/\/[^\s/?#]*@/g, '://(not shown)@')
}

function readEnv(
  spec: SettingsSpec,
  env: SettingsSources['env'],
  problems: SettingsProblem[],
): Map<string, Written> {
  const values = new Map<string, Written>()
  const known = new Set([settingsFileVariable, ...sharedNames.map((name) => variableName('TRIBUTARY', name))])
  for (const name of Object.keys(spec.fields)) {
    for (const variable of variablesOf(spec, name)) {
      known.add(variable)
      const text = env[variable]
      const shared = variable === variableName(spec.prefix, name) ? {} : ({ isShared: true } as const)
      if (text && !values.has(name))
        values.set(name, { name: variable, text, directory: process.cwd(), ...shared })
    }
  }
  for (const [variable, value] of Object.entries(env)) {
    if (!variable.startsWith('TRIBUTARY_') || known.has(variable)) continue
    const owner = knownPrefixes.find((prefix) => variable.startsWith(`${prefix}_`))
    if (owner !== undefined && owner !== spec.prefix) continue
    problems.push({
      name: variable,
      value: shownOf(variable, value),
      expected: `a variable this program knows, ${perhaps(variable, known)}`,
    })
  }
  return values
}

/** What to do about a name that is unknown. */
function perhaps(name: string, known: Iterable<string>): string {
  const meant = closestName(name, known)
  return meant === undefined ? 'see --help' : `perhaps ${meant}; see --help`
}

/** Reads `{ "shared": {…}, "relay": {…}, … }`. Sections of other programs are left to them. */
function readFile(spec: SettingsSpec, file: string, problems: SettingsProblem[]): Map<string, Written> {
  const values = new Map<string, Written>()
  const content = parseFile(file, problems)
  const sections = new Set([
    'shared',
    ...knownPrefixes.map((prefix) => prefix.slice('TRIBUTARY_'.length).toLowerCase()),
  ])
  for (const [section, entries] of Object.entries(content)) {
    const where = `${file}: ${section}`
    // For the editor that the file is written with.
    if (section === '$schema') continue
    if (!sections.has(section))
      problems.push({ name: where, value: undefined, expected: `one of ${[...sections].join(', ')}` })
    else if (!isObject(entries))
      problems.push({ name: where, value: JSON.stringify(entries), expected: 'an object' })
  }
  for (const section of ['shared', spec.section]) {
    const entries = content[section]
    if (!isObject(entries)) continue
    const names: readonly string[] = section === 'shared' ? sharedNames : Object.keys(spec.fields)
    for (const [name, value] of Object.entries(entries)) {
      const text = textOf(value)
      const where = `${file}: ${section}.${name}`
      if (!names.includes(name))
        problems.push({
          name: where,
          value: undefined,
          expected: `a setting of that section, ${perhaps(name, names)}`,
        })
      else if (text === undefined)
        problems.push({
          name: where,
          value: spec.fields[name]?.isSecret ? '(not shown)' : JSON.stringify(value),
          expected: spec.fields[name]?.form ?? 'text',
        })
      else {
        const shared = section === 'shared' ? ({ isShared: true } as const) : {}
        values.set(name, { name: where, text, directory: dirname(resolve(file)), ...shared })
      }
    }
  }
  return values
}

function parseFile(file: string, problems: SettingsProblem[]): Record<string, unknown> {
  try {
    const content: unknown = JSON.parse(readFileSync(file, 'utf8'))
    if (isObject(content)) return content
    problems.push({ name: 'settings file', value: file, expected: 'a JSON object' })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    problems.push({ name: 'settings file', value: file, expected: `a readable JSON file (${reason})` })
  }
  return {}
}

/** The text form of a JSON value: a string, a number, a boolean, or an array of strings without commas. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (!Array.isArray(value)) return undefined
  const items = value.filter((item) => typeof item === 'string' && !item.includes(','))
  return items.length === value.length ? items.join(',') : undefined
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
