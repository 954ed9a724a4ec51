import { sharedNames, type SettingsSpec } from './define.ts'
import type { Setting } from './setting.ts'

/** A JSON schema of the settings file for these programs, for editors: what each setting means, and its JSON type. */
export function settingsJsonSchema(specs: readonly SettingsSpec[]): Record<string, unknown> {
  const fieldsOf = ({ fields }: SettingsSpec): Record<string, unknown> =>
    Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, describe(field)]))
  const all = new Map(specs.flatMap(({ fields }) => Object.entries(fields)))
  const shared = sharedNames.flatMap((name) => {
    const field = all.get(name)
    return field === undefined ? [] : [[name, describe(field)] as const]
  })
  const section = (properties: Record<string, unknown>): object => ({
    type: 'object',
    additionalProperties: false,
    properties,
  })
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Settings of Tributary',
    type: 'object',
    additionalProperties: false,
    properties: {
      $schema: { type: 'string' },
      shared: { description: 'For all programs.', ...section(Object.fromEntries(shared)) },
      ...Object.fromEntries(specs.map((spec) => [spec.section, section(fieldsOf(spec))])),
    },
  }
}

function describe(field: Setting<unknown>): Record<string, unknown> {
  const { doc, form, fallback, isSecret } = field
  const shown = fallback === undefined || isSecret ? {} : { default: jsonOf(field, fallback) }
  return { description: `${doc} (${form})`, ...typeOf(field), ...shown }
}

/** Every setting may be text; what it may be besides follows from its kind. */
function typeOf({ fallback, isFlag, isList }: Setting<unknown>): Record<string, unknown> {
  if (isFlag) return { type: ['boolean', 'string'] }
  if (isList) return { type: ['array', 'string'], items: { type: 'string' } }
  return { type: typeof fallback === 'string' ? 'string' : ['integer', 'string'] }
}

function jsonOf(field: Setting<unknown>, fallback: unknown): unknown {
  const isPlain = typeof fallback === 'number' || typeof fallback === 'boolean' || Array.isArray(fallback)
  return isPlain ? fallback : field.format(fallback)
}
