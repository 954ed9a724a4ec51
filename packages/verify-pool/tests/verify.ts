/** What the tests keep of a good commit, and how they come to it. */
import { CheckedTrees, verifyEvent, type Refusal, type SigningKey } from '@tributary/repo-verify'

export interface Good {
  ok: true
  rev: string
  policy: string
}

const checkedTrees = new CheckedTrees()

export function verify(
  bytes: Buffer,
  key: SigningKey | undefined,
  strict: boolean,
  policy: string,
): Good | Refusal {
  if (bytes.includes('defect')) throw new TypeError('planted')
  const event = verifyEvent(bytes, { key, nowMs: Date.now(), strict, checkedTrees })
  if (!event.ok) return event
  if (event.kind !== 'commit') throw new TypeError(`planted as ${event.kind}`)
  return { ok: true, rev: event.rev, policy }
}

/** What a message says that ends a thread which was told of this policy. */
export function deadly(policy: string): string {
  return `ends-threads-of-${policy}.`
}
