import { FormError, choice, type Setting } from './setting.ts'

/** Every prefix a Tributary program reads. A variable under another program's prefix is that program's to judge. */
export const knownPrefixes = [
  'TRIBUTARY_RELAY',
  'TRIBUTARY_STREAM',
  'TRIBUTARY_INDEX',
  'TRIBUTARY_FEED',
  'TRIBUTARY_UP',
  'TRIBUTARY_DEMO',
  'TRIBUTARY_CLIENT',
] as const

export type Prefix = (typeof knownPrefixes)[number]

/** Settings that may be given once for all programs: TRIBUTARY_PLC_URL, or `shared` in the settings file. */
export const sharedNames = [
  'logLevel',
  'plcUrl',
  'allowedPrivateHosts',
  'labelers',
  'trustedProxies',
] as const

/** The variable that names the settings file. The flag is --settings. */
export const settingsFileVariable = 'TRIBUTARY_SETTINGS'

type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'
type CommonFields = { readonly logLevel: Setting<LogLevel> }

/** What every program has, besides its own settings. */
const common: CommonFields = {
  logLevel: choice(['trace', 'debug', 'info', 'warn', 'error', 'silent'], {
    default: 'info',
    doc: 'The least severe log line to write. Lines go to stderr as JSON.',
  }),
}

export type Fields = Readonly<Record<string, Setting<unknown>>>

export interface SettingsSpec<F extends Fields = Fields> {
  readonly prefix: Prefix
  /** Its name in the settings file, and in help: 'relay'. */
  readonly section: string
  readonly fields: F
  /** Settings of which one alone can count: to give both is a problem. */
  readonly alternatives: readonly (readonly [string, string])[]
}

/** Pairs of settings of which one alone can count. */
type Alternatives<F> = readonly (readonly [keyof F & string, keyof F & string])[]

export type SettingsOf<S extends SettingsSpec> = {
  readonly [K in keyof S['fields']]: S['fields'][K] extends Setting<infer T> ? T : never
}

/** Declares a program's settings. `logLevel` is added to every program. */
export function defineSettings<const F extends Fields>(
  prefix: Prefix,
  fields: F,
  alternatives: Alternatives<F> = [],
): SettingsSpec<F & CommonFields> {
  return defineSilentSettings<F & CommonFields>(prefix, { ...fields, ...common }, alternatives)
}

/** Declares the settings of what writes no log. */
export function defineSilentSettings<const F extends Fields>(
  prefix: Prefix,
  fields: F,
  alternatives: Alternatives<F> = [],
): SettingsSpec<F> {
  return Object.freeze({
    prefix,
    section: prefix.slice('TRIBUTARY_'.length).toLowerCase(),
    fields,
    alternatives,
  })
}

/** `plcUrl` under `TRIBUTARY_RELAY` is `TRIBUTARY_RELAY_PLC_URL`. */
export function variableName(prefix: string, name: string): string {
  return `${prefix}_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
}

/** `plcUrl` is `--plc-url`. */
export function flagName(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/** The names under which the environment can give a setting, the strongest first. */
export function variablesOf(spec: SettingsSpec, name: string): string[] {
  const own = variableName(spec.prefix, name)
  return sharedNames.some((shared) => shared === name) ? [own, variableName('TRIBUTARY', name)] : [own]
}

/**
 * Settings back in their environment form, for a program that starts another one.
 * Absent values are left out. Throws FormError for a name the program does not have.
 */
export function toEnvironment<S extends SettingsSpec>(
  spec: S,
  values: Partial<SettingsOf<S>>,
): Record<string, string> {
  const environment: Record<string, string> = {}
  for (const [name, value] of Object.entries(values)) {
    const field = spec.fields[name]
    if (field === undefined) throw new FormError(`${spec.section} has no setting ${name}`)
    if (value !== undefined) environment[variableName(spec.prefix, name)] = field.format(value)
  }
  return environment
}
