import type { GenerationProgress } from '@tributary/index-store'
import { hasFields } from '../answer-lists.ts'

const barChars = 24

/** How far the generation after `present` has come, for one line. */
export function rebuildText(progress: readonly GenerationProgress[], present: number): string {
  const through = progress.find(({ generation }) => generation === present)?.cursor ?? 0
  const next = progress.find(({ generation }) => generation === present + 1)
  if (next === undefined) return 'waiting for the index to begin: it must run, and its log says why it cannot'
  const part = through === 0 ? 1 : Math.min(1, next.cursor / through)
  const bar = '#'.repeat(Math.floor(part * barChars)).padEnd(barChars, '.')
  return `[${bar}] ${Math.floor(part * 100)} %  seq ${next.cursor} of ${through}`
}

/** Why the rebuild of an index does not go on, by its `/_health`. Undefined when it does, or when there is none. */
export function rebuildTrouble(health: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const rebuild = health?.['rebuild']
  if (!hasFields(rebuild, { state: 'string', detail: 'string' })) return undefined
  return rebuild['state'] === 'waiting' ? String(rebuild['detail']) : undefined
}
