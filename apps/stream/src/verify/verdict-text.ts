/**
 * A verdict on a good event as text of one byte a character, without what the main thread knows of the message:
 *
 *     kind | + when there is a tree before, else - | rev | since, or spaces | data | prevData
 *     faults of dropped operations, with spaces between
 *     for each operation a line: action | + and the digest of its record when there is one, else -
 *         collection/rkey, and where its record begins and ends
 *
 * A digest may have the signs of new lines and spaces.
 */
import type { Nsid, RecordKey, Tid } from '@tributary/protocol'
import type { AccountBound, Digest, OpFault } from '@tributary/repo-verify'
import type { Good, WatchedOp } from './verified.ts'

const tidChars = 13
const digestChars = 32
const noTid = ' '.repeat(tidChars)
const letters = { create: 'c', update: 'u', delete: 'd' } as const
const actions: Record<string, WatchedOp['action']> = { c: 'create', u: 'update', d: 'delete' }

/** @param bytes the message, of which the records are views. */
export function verdictText(verdict: Good, bytes: Uint8Array): string {
  if (verdict.kind === 'sync') return `s-${verdict.rev}${noTid}${verdict.data}`
  const { rev, since, data, prevData, dropped, ops } = verdict
  const head = `c${prevData === undefined ? '-' : '+'}${rev}${since ?? noTid}${data}${prevData ?? ''}`
  let text = head + dropped.join(' ')
  for (const { action, collection, rkey, cid, record } of ops) {
    const start = (record?.byteOffset ?? 0) - bytes.byteOffset
    text += `\n${letters[action]}`
    text +=
      record && cid !== undefined
        ? `+${cid}${collection}/${rkey} ${start} ${start + record.length}`
        : `-${collection}/${rkey}`
  }
  return text
}

/** Reads what `verdictText` has written of a message. */
export function readVerdict(text: string, { did, upstreamSeq }: AccountBound, bytes: Buffer): Good {
  let at = 2
  const next = (chars: number): string => text.slice(at, (at += chars))
  const rev = next(tidChars) as Tid // as it was written
  const since = next(tidChars)
  const data = next(digestChars) as Digest // as it was written
  if (text.startsWith('s')) return { ok: true, kind: 'sync', upstreamSeq, did, rev, data }
  const prevData = text.charAt(1) === '+' ? (next(digestChars) as Digest) : undefined // as it was written
  const [faults = ''] = text.slice(at).split('\n', 1)
  return {
    ok: true,
    kind: 'commit',
    upstreamSeq,
    did,
    rev,
    since: since === noTid ? null : (since as Tid), // as it was written
    data,
    prevData,
    dropped: faults === '' ? noFaults : (faults.split(' ') as OpFault[]), // as they were written
    ops: readOps(text, at + faults.length, bytes),
  }
}

const noFaults: readonly OpFault[] = []

/** @param from where the first line begins with the sign of a new one. */
function readOps(text: string, from: number, bytes: Buffer): WatchedOp[] {
  const ops: WatchedOp[] = []
  for (let at = from; at < text.length;) {
    const action = actions[text.charAt(at + 1)] ?? 'create'
    const cidAt = at + 3
    const hasRecord = text.charAt(at + 2) === '+'
    const pathAt = hasRecord ? cidAt + digestChars : cidAt
    const next = text.indexOf('\n', pathAt)
    at = next === -1 ? text.length : next
    const [path = '', start, end] = text.slice(pathAt, at).split(' ')
    const slash = path.indexOf('/')
    ops.push({
      action,
      collection: path.slice(0, slash) as Nsid, // as it was written
      rkey: path.slice(slash + 1) as RecordKey, // as it was written
      cid: hasRecord ? (text.slice(cidAt, pathAt) as Digest) : undefined, // as it was written
      record: hasRecord ? bytes.subarray(Number(start), Number(end)) : undefined,
    })
  }
  return ops
}
