/** What a run of a simulator is made of, and what comes of it. */

/** What happens in a run, as a list of plain steps drawn from a seed. Every step can be left out. */
export interface AnyScript {
  seed: number
  steps: readonly unknown[]
}

export interface Result {
  /** The promises that broke, in order. */
  broken: string[]
  trace: string[]
}

/** Plays a script. One at a time. */
export type Play<S extends AnyScript> = (script: S) => Promise<Result>

/** A script as a person reads it, and as `scriptFrom` takes it back. */
export function textOf({ steps, ...world }: AnyScript): string {
  return [JSON.stringify(world), ...steps.map((step) => JSON.stringify(step))].join('\n')
}

/** @throws SyntaxError for a text that `textOf` did not write. */
export function scriptFrom(text: string): AnyScript {
  const [world, ...steps] = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)
  return { ...(world as Omit<AnyScript, 'steps'>), steps } // as `textOf` wrote it
}
