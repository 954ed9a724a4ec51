import { settingsFileVariable, type Prefix } from './define.ts'

/**
 * The environment for a program that this one starts: everything inherited except settings of ours, which the caller
 * gives in full, so that a child never runs with a half of somebody else's settings. What the operator set for that
 * very program, under its own prefix, and the settings file stay; the caller's values win over them.
 */
export function childEnvironment(
  settings: Readonly<Record<string, string>>,
  prefix?: Prefix,
): Record<string, string> {
  const isInherited = (name: string): boolean =>
    !name.startsWith('TRIBUTARY_') ||
    name === settingsFileVariable ||
    (prefix !== undefined && name.startsWith(`${prefix}_`))
  const inherited = Object.entries(process.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && isInherited(entry[0]),
  )
  return { ...Object.fromEntries(inherited), ...settings }
}
