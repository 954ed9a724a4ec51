import type { Refusal } from '@tributary/repo-verify'

/** What was thrown while an event was verified: a defect of ours. */
export interface Defect {
  ok: false
  reason: 'internal-error'
  detail: string
  error: Error
}

/** What verification says of an event. V is what a program keeps of a good one. */
export type Verdict<V> = V | Refusal | Defect

/** Called for each event in order. `bytes`, the message, are only good during the call. */
export type OnVerdict<E, L, V> = (event: E, lane: L, verdict: Verdict<V>, bytes: Buffer) => void

/** Makes a defect of what is thrown. Its error is a plain one, because a verdict goes from thread to thread. */
export function orDefect<V>(verify: () => V | Refusal): Verdict<V> {
  try {
    return verify()
  } catch (error) {
    const { name, message, stack } = error instanceof Error ? error : new Error(String(error))
    return defect(Object.assign(new Error(`${name}: ${message}`), { stack }))
  }
}

export function defect(error: Error): Defect {
  return { ok: false, reason: 'internal-error', detail: 'a defect of verification', error }
}
