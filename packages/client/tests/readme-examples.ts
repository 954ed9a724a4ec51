/** The programs that the READMEs show, with what they leave to the reader. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Example {
  /** The README, and which of its programs it is. */
  name: string
  code: string
}

/** What the programs take from around them. `done` is called with the seqs that they stored so far. */
const surroundings = `
import type { ClientEvent, RecordSchema } from '@tributary/client/node'
declare global { var told: { url: string; done: (seqs: readonly number[]) => void } }
const apiKey: string = 'a-key-of-the-archive'
let saved: number | undefined
const seqs: number[] = []
const store = async (events: readonly ClientEvent[]): Promise<void> => {
  seqs.push(...events.map(({ seq }) => seq))
  globalThis.told.done(seqs)
}
const put = async (seq: number): Promise<void> => await store([{ seq } as ClientEvent])
const activitySchema: RecordSchema<{ title: string }> = {
  '~standard': {
    validate: (value) =>
      typeof (value as { title?: unknown }).title === 'string'
        ? { value: value as { title: string } }
        : { issues: [{ message: 'it has no title' }] },
  },
}
const activities = {
  set: async (key: string, _title: string): Promise<void> => await put(Number(/\\d+$/.exec(key)?.[0])),
  delete: async (_key: string): Promise<void> => undefined,
  show: async (_did: string, _isShown: boolean): Promise<void> => undefined,
}
const database = {
  cursor: (): number | undefined => undefined,
  write: async (events: readonly ClientEvent[], _cursor: number): Promise<void> => await store(events),
}
void [apiKey, saved, activities, activitySchema, database]
`

/** Every program of a README, complete. Addresses in it are those of `globalThis.told.url`. */
export function readmeExamples(): Example[] {
  const root = join(import.meta.dirname, '../../..')
  return ['README.md', 'packages/client/README.md'].flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8')
    return Array.from(text.matchAll(/^```ts\n(.*?)^```/gms), ([, code = ''], at) => ({
      name: `${file} ${at + 1}`,
      code: `${surroundings}${code.replaceAll(/'https?:\/\/[^']+'/g, 'globalThis.told.url')}`,
    }))
  })
}
