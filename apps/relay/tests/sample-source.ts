import { newSourcePolicy } from '../src/policy/source-policy.ts'
import { Source } from '../src/sources/source.ts'

const pds = { host: 'pds.example.com', url: 'wss://pds.example.com' }

/** A source as it is when nothing has been read of it yet. */
export function sampleSource(nowMs?: () => number, place = pds): Source {
  const start = {
    cursor: 0,
    epoch: 1,
    epochAtMs: 0,
    ahead: [],
    newestLogged: [],
    looks: [],
    lostAtMs: 0,
    revision: 0,
    walkFrom: '',
    caughtUpAtMs: 0,
  }
  const stored = { id: 1, ...place, ...start }
  return new Source(stored, { ...stored, policy: newSourcePolicy, revision: 1, addedAtMs: 0 }, nowMs)
}
