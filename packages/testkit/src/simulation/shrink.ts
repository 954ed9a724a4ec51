/** Makes a script that fails as short as it gets, by leaving steps out and trying again. */
import type { AnyScript, Play } from './script.ts'

/**
 * The shortest script found within a time that breaks a promise of the same kind: larger pieces are left out first, then
 * single steps until none of them can be spared.
 */
export async function shrink<S extends AnyScript>(
  script: S,
  play: Play<S>,
  broken: string,
  msMax: number,
): Promise<S> {
  const untilMs = performance.now() + msMax
  const wanted = kindOf(broken)
  const fails = async (steps: readonly unknown[]): Promise<boolean> => {
    const { broken: found } = await play({ ...script, steps })
    return found.some((each) => kindOf(each) === wanted)
  }
  let steps: readonly unknown[] = script.steps
  let size = Math.ceil(steps.length / 2)
  while (size >= 1 && performance.now() < untilMs) {
    const { length } = steps
    for (let at = 0; at < steps.length && performance.now() < untilMs;) {
      const fewer = steps.toSpliced(at, size)
      if (await fails(fewer)) steps = fewer
      else at += size
    }
    if (size === 1 && steps.length === length) break
    size = Math.ceil(size / 2)
  }
  return { ...script, steps }
}

/** What broke, without its numbers. */
function kindOf(broken: string): string {
  return broken.split('\n', 1)[0]?.replaceAll(/did:plc:\w+|\b3[a-z2-7]{12}\b|\d+/g, '#') ?? ''
}
