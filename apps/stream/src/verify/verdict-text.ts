/**
 * A verdict on a good event as text of one byte a character, without what the main thread knows of the message:
 *
 *     kind | + when there is a tree before, else - | rev | since, or spaces | data | prevData
 *     faults of dropped operations, with spaces between
 *     for each operation a line: action, collection/rkey, and where its record begins and ends
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
  for (const { action, collection, rkey, record } of ops) {
    text += `\n${letters[action]} ${collection}/${rkey}`
    if (!record) continue
    const start = record.byteOffset - bytes.byteOffset
    text += ` ${start} ${start + record.length}`
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
  const [faults = '', ...lines] = text.slice(at).split('\n')
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
    ops: lines.map((line) => readOp(line, bytes)),
  }
}

const noFaults: readonly OpFault[] = []

function readOp(line: string, bytes: Buffer): WatchedOp {
  const [letter = '', path = '', start, end] = line.split(' ')
  const slash = path.indexOf('/')
  return {
    action: actions[letter] ?? 'create',
    collection: path.slice(0, slash) as Nsid, // as it was written
    rkey: path.slice(slash + 1) as RecordKey, // as it was written
    record: start === undefined ? undefined : bytes.subarray(Number(start), Number(end)),
  }
}
