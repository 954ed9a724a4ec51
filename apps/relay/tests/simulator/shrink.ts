/** Makes a script that fails as short as it gets, by leaving steps out and trying again. */
import type { Script, Step } from './script.ts'
import { play } from './simulation.ts'

/**
 * The shortest script found within a time that breaks a promise of the same kind.
 * @param kind what tells kinds apart. By default the first letters of what broke.
 */
export async function shrink(
  script: Script,
  broken: string,
  msMax: number,
  kind: (broken: string) => string = kindOf,
): Promise<Script> {
  const untilMs = performance.now() + msMax
  const wanted = kind(broken)
  const fails = async (steps: Step[]): Promise<boolean> => {
    const { broken: found } = await play({ ...script, steps })
    return found.some((each) => kind(each) === wanted)
  }
  let { steps } = script
  for (let size = Math.ceil(steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < steps.length && performance.now() < untilMs;) {
      const fewer = steps.toSpliced(at, size)
      if (await fails(fewer)) steps = fewer
      else at += size
    }
  }
  return { ...script, steps }
}

/** What broke, without its numbers. */
function kindOf(broken: string): string {
  return broken.split('\n', 1)[0]?.replaceAll(/did:plc:\w+|\b3[a-z2-7]{12}\b|\d+/g, '#') ?? ''
}
