export interface SettingsProblem {
  /** The variable, flag or place in the settings file, as the operator wrote it. */
  name: string
  /** As written; undefined when nothing was given. */
  value: string | undefined
  /** The form that would have been accepted. */
  expected: string
}

/** Everything that is wrong with a program's settings. The message has one line for each problem. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError'
  readonly problems: readonly SettingsProblem[]

  constructor(problems: readonly SettingsProblem[]) {
    super(problems.map(describe).join('\n'))
    this.problems = problems
  }
}

function describe({ name, value, expected }: SettingsProblem): string {
  return `${name}${value === undefined ? '' : `=${JSON.stringify(value)}`}: expected ${expected}`
}
