import { readFileSync, statSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'

/** A secret is one line; a file larger than this was named by mistake. */
const secretBytesMax = 16_384
const listItemsMax = 10_000

/** Says in `message` which form was expected instead. Readers turn it into a problem with name and value. */
export class FormError extends Error {
  override readonly name = 'FormError'
}

/** One setting: how its text is read, and how help and error reports describe it. */
export interface Setting<T> {
  readonly doc: string
  /** The accepted form in words: 'an integer from 0 to 65535'. */
  readonly form: string
  /** Used when nothing gives a value. Undefined: the setting is absent then, or, if required, that is a problem. */
  readonly fallback: T | undefined
  readonly isRequired: boolean
  /** Never shown in reports. */
  readonly isSecret: boolean
  /** May stand alone on the command line, and be negated with --no-. */
  readonly isFlag: boolean
  /** Takes comma-separated items, and may be repeated on the command line. */
  readonly isList: boolean
  /** Reads the text form. Relative paths start from `directory`. Throws FormError. */
  parse(text: string, directory: string): T
  /** The text form, as `parse` takes it. */
  format(value: T): string
}

interface Options<T> {
  doc: string
  default?: T
  /** Without a value the program does not start. */
  required?: true
}

/** A setting without a default that is not required can be undefined. */
export type Given<O, T> = O extends { default: unknown } | { required: true } ? T : T | undefined

/** An integer in decimal digits. Units belong in the setting's name: `idleTimeoutMs`. */
export function integer<const O extends Options<number> & { min?: number; max?: number }>(
  options: O,
): Setting<Given<O, number>> {
  const min = options.min ?? 0
  const max = options.max ?? Number.MAX_SAFE_INTEGER
  const form = options.max === undefined ? `an integer, at least ${min}` : `an integer from ${min} to ${max}`
  return setting<number, O>(options, form, {
    parse(text) {
      const value = /^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN
      if (!(value >= min && value <= max)) throw new FormError(form)
      return value
    },
    format: String,
  })
}

/**
 * Any text of at least one character.
 *
 * @param options.pattern the whole text must match; `form` then says in words what matches
 * @param options.isSecret keeps the value out of reports
 */
export function text<
  const O extends Options<string> & { pattern?: RegExp; form?: string; isSecret?: boolean },
>(options: O): Setting<Given<O, string>> {
  const form = options.form ?? 'text'
  return setting<string, O>(
    options,
    form,
    {
      parse(value) {
        if (value === '') throw new FormError(form)
        if (options.pattern !== undefined && !matchesWhole(options.pattern, value)) throw new FormError(form)
        return value
      },
      format: (value) => value,
    },
    { isSecret: options.isSecret ?? false },
  )
}

/**
 * An absolute URL without credentials and fragment. A path of `/` alone is dropped, so that paths can be appended.
 *
 * @param options.schemes default: http and https
 */
export function url<const O extends Options<string> & { schemes?: readonly string[] }>(
  options: O,
): Setting<Given<O, string>> {
  const schemes = options.schemes ?? ['http', 'https']
  const form = `a URL starting with ${schemes.map((scheme) => `${scheme}://`).join(' or ')}`
  return setting<string, O>(options, form, {
    parse(value) {
      const parsed = URL.parse(value)
      const fits =
        parsed !== null &&
        schemes.includes(parsed.protocol.slice(0, -1)) &&
        parsed.username === '' &&
        parsed.password === '' &&
        parsed.hash === ''
      if (!fits) throw new FormError(form)
      return parsed.pathname === '/' && parsed.search === '' ? parsed.origin : parsed.href
    },
    format: (value) => value,
  })
}

/** A file system path, made absolute: from the working directory, or from the folder of the settings file. */
export function path<const O extends Options<string>>(options: O): Setting<Given<O, string>> {
  return setting<string, O>(options, 'a path', {
    parse(value, directory) {
      if (value === '' || value.includes('\0')) throw new FormError('a path')
      return isAbsolute(value) ? value : resolve(directory, value)
    },
    format: (value) => value,
  })
}

/**
 * Comma-separated items; on the command line the flag may also be repeated. Empty by default. Duplicates are dropped.
 *
 * @param options.pattern every whole item must match; `form` then says in words what an item is
 */
export function list(options: {
  doc: string
  default?: readonly string[]
  pattern?: RegExp
  form?: string
  itemsMax?: number
  isSecret?: boolean
}): Setting<readonly string[]> {
  const itemsMax = options.itemsMax ?? listItemsMax
  const form = `a comma-separated list of ${options.form ?? 'texts'}`
  return setting<readonly string[], { default: readonly string[]; doc: string }>(
    { doc: options.doc, default: options.default ?? [] },
    form,
    {
      parse(value) {
        const items = value.split(',').map((item) => item.trim())
        const kept = new Set(items.filter((item) => item !== ''))
        for (const item of kept) {
          if (options.pattern !== undefined && !matchesWhole(options.pattern, item)) {
            throw new FormError(
              options.isSecret === true ? form : `${form}, which ${JSON.stringify(item)} is not`,
            )
          }
        }
        if (kept.size > itemsMax) throw new FormError(`${form}, at most ${itemsMax}`)
        return [...kept]
      },
      format: (value) => value.join(','),
    },
    { isList: true, isSecret: options.isSecret ?? false },
  )
}

/** One of a few words. */
export function choice<const C extends string, const O extends Options<C>>(
  choices: readonly C[],
  options: O,
): Setting<Given<O, C>> {
  const form = `one of ${choices.join(', ')}`
  return setting<C, O>(options, form, {
    parse(value) {
      const chosen = choices.find((candidate) => candidate === value)
      if (chosen === undefined) throw new FormError(form)
      return chosen
    },
    format: (value) => value,
  })
}

/** True or false, false by default. On the command line `--name` and `--no-name` do. */
export function flag(options: { doc: string; default?: boolean }): Setting<boolean> {
  const form = 'true or false'
  return setting<boolean, { doc: string; default: boolean }>(
    { doc: options.doc, default: options.default ?? false },
    form,
    {
      parse(value) {
        if (value === 'true' || value === '1') return true
        if (value === 'false' || value === '0') return false
        throw new FormError(form)
      },
      format: String,
    },
    { isFlag: true },
  )
}

/**
 * The path of a file that holds one secret, which is 16 to 1,024 visible ASCII characters: a shorter one can be guessed,
 * and others fit in no `Authorization` header. The value is the file's content without surrounding white space, so that
 * the secret itself is in no environment, process list or report.
 */
export function secretFile<const O extends { doc: string; required?: true }>(
  options: O,
): Setting<Given<O, string>> {
  const form =
    'the path of a readable file with a secret of 16 to 1,024 characters without spaces; `openssl rand -hex 16` makes one'
  return setting<string, O>(options, form, {
    parse(value, directory) {
      const secret = readSecret(resolve(directory, value))
      if (secret === undefined || !/^[\x21-\x7e]{16,1024}$/.test(secret)) throw new FormError(form)
      return secret
    },
    format() {
      throw new Error('a secret has no text form')
    },
  })
}

function readSecret(file: string): string | undefined {
  try {
    if (statSync(file).size > secretBytesMax) return undefined
    return readFileSync(file, 'utf8').trim()
  } catch {
    return undefined // the caller reports the path together with all other problems
  }
}

function matchesWhole(pattern: RegExp, value: string): boolean {
  return new RegExp(`^(?:${pattern.source})$`, pattern.flags.replace(/[gy]/g, '')).test(value)
}

function setting<T, O extends Options<T>>(
  options: O,
  form: string,
  text: { parse: (text: string, directory: string) => T; format: (value: T) => string },
  traits: { isSecret?: boolean; isFlag?: boolean; isList?: boolean } = {},
): Setting<Given<O, T>> {
  return {
    doc: options.doc,
    form,
    fallback: options.default,
    isRequired: options.required === true,
    isSecret: traits.isSecret === true,
    isFlag: traits.isFlag === true,
    isList: traits.isList === true,
    parse: text.parse,
    format: text.format,
  }
}
