/** The steps of a Dockerfile, and their paths in a folder instead of `/`. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** One instruction, with the lines that continue it. */
export interface Step {
  instruction: string
  text: string
}

/** The steps of each stage, by its name; the last stage is the image. */
export function readStages(file: string): ReadonlyMap<string, readonly Step[]> {
  const text = readFileSync(file, 'utf8')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
  const stages = new Map<string, Step[]>()
  let steps: Step[] = []
  for (const [, instruction = '', rest = ''] of text.matchAll(/^([A-Z]+) (.*)$/gm)) {
    if (instruction === 'FROM') stages.set(/ AS (\w+)$/.exec(rest)?.[1] ?? 'image', (steps = []))
    else steps.push({ instruction, text: rest })
  }
  return stages
}

/** What the steps of one instruction say, in their order. */
export function textsOf(steps: readonly Step[], instruction: string): string[] {
  return steps.filter((step) => step.instruction === instruction).map(({ text }) => text)
}

/** The words of an `ENTRYPOINT` or of a `CMD`. */
export function wordsOf(text: string): string[] {
  return JSON.parse(text) as string[] // of texts, or Docker would not read it either
}

/** Puts the absolute paths of a command that an image has into a folder. */
export function inFolder(command: string, folder: string): string {
  return command.replaceAll(/(?<=^|\s)\/(?=source|packed|tmp|root|data)/g, join(folder, '/'))
}
