import { type EventKind, isDid, type StreamEvent } from '@tributary/protocol'
import { isObject } from './json.ts'

/** Rows of a block were seen within seconds. */
let lastSecond = Number.NaN
let lastText = ''

/** Unix seconds as the stream writes times, without the fraction. */
export function displaySecond(second: number): string {
  if (second !== lastSecond) {
    lastText = new Date(second * 1000).toISOString().slice(0, 19)
    lastSecond = second
  }
  return lastText
}

/** Unix microseconds as the stream writes times: RFC 3339, UTC, six fractional digits. */
export function displayTime(micros: number): string {
  const second = Math.floor(micros / 1_000_000)
  // A million more, so that zeros at the front stay.
  return `${displaySecond(second)}.${String(micros - second * 1_000_000 + 1_000_000).slice(1)}Z`
}

/**
 * An identity, account or sync event out of its envelope and the upstream event inside, which carries the relay's
 * `seq` and `time`. Fields of the upstream event that the stream does not know are left out.
 * @throws Error when a required field is missing or of another type.
 */
export function readMarker(
  kind: Exclude<EventKind, 'commit'>,
  envelope: Pick<StreamEvent, 'seq' | 'did' | 'time'>,
  body: Record<string, unknown>,
): StreamEvent {
  const { did, seq, time, handle, status, active, rev, blocks } = body
  if (!isDid(did) || typeof seq !== 'number' || typeof time !== 'string') {
    throw new Error(`the ${kind} event lacks did, seq or time`)
  }
  const upstream = { did, seq, time }
  if (kind === 'identity') {
    return { kind, ...envelope, identity: { ...upstream, ...(typeof handle === 'string' && { handle }) } }
  }
  if (kind === 'account') {
    if (typeof active !== 'boolean') throw new Error('the account event lacks active')
    return {
      kind,
      ...envelope,
      account: { ...upstream, active, ...(typeof status === 'string' && { status }) },
    }
  }
  if (typeof rev !== 'string' || !isObject(blocks) || typeof blocks['$bytes'] !== 'string') {
    throw new Error('the sync event lacks rev or blocks')
  }
  return { kind, ...envelope, sync: { ...upstream, rev, blocks: { $bytes: blocks['$bytes'] } } }
}
