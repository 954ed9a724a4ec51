/** The events of `com.atproto.sync.subscribeRepos` as bytes, for hosts that are not a PDS. */
import { encode, toBytes } from '@atcute/cbor'
import { cidBytes, cidKey, linkTo } from './cid.ts'
import type { Block, Cid } from './cid.ts'
import type { SignedCommit } from './signed-repo.ts'

/** The fields of an event's payload. */
export type EventBody = Record<string, unknown>

/** One WebSocket message: the header map followed by the payload map. */
export function encodeEvent(type: string, body: EventBody): Uint8Array {
  return Buffer.concat([encode({ op: 1, t: type }), encode(body)])
}

/** An error message. The stream closes right after it. */
export function encodeError(error: string, message: string): Uint8Array {
  return Buffer.concat([encode({ op: -1 }), encode({ error, message })])
}

/** A CARv1 file with one root. */
export function encodeCar(root: Cid, blocks: readonly Block[]): Uint8Array {
  const header = encode({ roots: [linkTo(root)], version: 1 })
  const parts: Uint8Array[] = [varint(header.length), header]
  for (const { cid, bytes } of blocks) {
    parts.push(varint(cid.length + bytes.length), cid, bytes)
  }
  return Buffer.concat(parts)
}

/** The blocks of a CAR by the `cidKey` of their CID. Trusts the file: it was made here. */
export function decodeCar(car: Uint8Array): Map<string, Uint8Array> {
  const blocks = new Map<string, Uint8Array>()
  let at = 0
  const readVarint = (): number => {
    let value = 0
    for (let shift = 1; ; shift *= 0x80) {
      const byte = car[at++] ?? 0
      value += (byte & 0x7f) * shift
      if (byte < 0x80) return value
    }
  }
  const headerBytes = readVarint()
  at += headerBytes
  while (at < car.length) {
    const end = readVarint() + at
    blocks.set(cidKey(car.subarray(at, at + cidBytes)), car.subarray(at + cidBytes, end))
    at = end
  }
  return blocks
}

function varint(value: number): Uint8Array {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80)
  bytes.push(rest)
  return Uint8Array.from(bytes)
}

/** The payload of the `#commit` event of a commit, without `seq` and `time`. */
export function commitBody(signed: SignedCommit): EventBody {
  return {
    rebase: false,
    tooBig: false,
    repo: signed.did,
    commit: linkTo(signed.commit.cid),
    rev: signed.rev,
    since: signed.since,
    blocks: toBytes(encodeCar(signed.commit.cid, [signed.commit, ...signed.blocks])),
    ops: signed.ops.map(({ action, path, cid, prev }) => ({
      action,
      path,
      cid: cid === null ? null : linkTo(cid),
      ...(prev === undefined ? {} : { prev: linkTo(prev) }),
    })),
    blobs: [],
    ...(signed.prevData === undefined ? {} : { prevData: linkTo(signed.prevData) }),
  }
}

/** The payload of the `#sync` event of a repository's current commit, without `seq` and `time`. */
export function syncBody(did: string, rev: string, head: Block): EventBody {
  return { did, rev, blocks: toBytes(encodeCar(head.cid, [head])) }
}
