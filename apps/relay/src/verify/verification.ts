import type { Lane } from '@tributary/lanes'
import { VerifyPool, type Verdict as PoolVerdict, type Verification } from '@tributary/verify-pool'
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { readVerdict } from './verdict-text.ts'
import type { Verified } from './verified.ts'
import { Verifier } from './verifier.ts'

type RelayLane = Lane<Source, UpstreamEvent>

/** Where the relay's commits and syncs are verified. */
export type RelayVerification = Verification<UpstreamEvent, RelayLane, Verified>

export type Verdict = PoolVerdict<Verified>

export function newVerification({ workers }: { workers: number }): RelayVerification {
  const verifier = new Verifier()
  return new VerifyPool<UpstreamEvent, RelayLane, Verified>({
    workers,
    thread: new URL('./verify-thread.ts', import.meta.url),
    // An account keeps its row while events of it are under way.
    placeOf: ({ account }) => account.row,
    verify: (_, bytes, key, isStrict) => verifier.verify(bytes, key, isStrict),
    read: readVerdict,
  })
}
