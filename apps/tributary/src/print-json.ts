/** What `--json` prints of a command that ends: one value, for people too. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value, undefined, 2)}\n`)
}

/** The option, and what it says. */
export const jsonOption = ['--json', 'print JSON', false] as const
