import { flagName, settingsFileVariable, variablesOf, type SettingsSpec } from './define.ts'
import type { Setting } from './setting.ts'

/** Columns of a text for nobody's terminal. */
const usualWidth = 80

/**
 * The help text of a program's settings: for each its flag, variables, form, default and meaning.
 * @param width columns of the terminal
 */
export function settingsHelp(spec: SettingsSpec, width: number = usualWidth): string {
  const lines = Object.entries(spec.fields).flatMap(([name, field]) => [
    `  ${flagName(name)}${field.isFlag ? '' : ' <value>'}`,
    ...explained(field.doc, width),
    ...explained(`${sentence(field)} Variable: ${variablesOf(spec, name).join(', else ')}.`, width),
  ])
  const file = `A JSON file with one object per program ("${spec.section}") and one for all ("shared"), keys spelled like the flags in camelCase. Default: tributary.json, if there is one. Variable: ${settingsFileVariable}.`
  return [
    'Settings, from flags, else variables, else the settings file:',
    '',
    ...lines,
    '  --settings <file>',
    ...explained(file, width),
    '  --help',
    ...explained('Prints this text.', width),
    '',
  ].join('\n')
}

/** A text below the flag that it explains. A word that is longer than a line has one of its own. */
function explained(text: string, width: number): string[] {
  const indent = ' '.repeat(6)
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width)
      lines[lines.length - 1] = `${last} ${word}`
    else lines.push(`${indent}${word}`)
  }
  return lines
}

function sentence(field: Setting<unknown>): string {
  // An address is written as it is typed.
  const isAddress = /^\w+:\/\//.test(field.form)
  const form = isAddress ? field.form : `${field.form.charAt(0).toUpperCase()}${field.form.slice(1)}`
  if (field.isRequired) return `${form}. Required.`
  const fallback = field.fallback === undefined ? '' : field.format(field.fallback)
  return fallback === '' ? `${form}. None by default.` : `${form}. Default: ${fallback}.`
}
