import { flagName, settingsFileVariable, variablesOf, type SettingsSpec } from './define.ts'
import type { Setting } from './setting.ts'

/** The help text of a program's settings: for each its flag, variables, form, default and meaning. */
export function settingsHelp(spec: SettingsSpec): string {
  const lines = Object.entries(spec.fields).flatMap(([name, field]) => [
    `  ${flagName(name)}${field.isFlag ? '' : ' <value>'}`,
    `      ${field.doc}`,
    `      ${sentence(field)} Variable: ${variablesOf(spec, name).join(', else ')}.`,
  ])
  return [
    'Settings, from flags, else variables, else the settings file:',
    '',
    ...lines,
    '  --settings <file>',
    `      A JSON file with one object per program ("${spec.section}") and one for all ("shared"),`,
    '      keys spelled like the flags in camelCase. Default: tributary.json, if there is one.',
    `      Variable: ${settingsFileVariable}.`,
    '  --help',
    '      Prints this text.',
    '',
  ].join('\n')
}

function sentence(field: Setting<unknown>): string {
  const form = `${field.form.charAt(0).toUpperCase()}${field.form.slice(1)}`
  if (field.isRequired) return `${form}. Required.`
  const fallback = field.fallback === undefined ? '' : field.format(field.fallback)
  return fallback === '' ? `${form}. None by default.` : `${form}. Default: ${fallback}.`
}
