/**
 * The environment for a program that this one starts: everything inherited except settings of ours, which the caller
 * gives in full, so that a child never runs with a half of somebody else's settings.
 */
export function childEnvironment(settings: Readonly<Record<string, string>>): Record<string, string> {
  const inherited = Object.entries(process.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !entry[0].startsWith('TRIBUTARY_'),
  )
  return { ...Object.fromEntries(inherited), ...settings }
}
