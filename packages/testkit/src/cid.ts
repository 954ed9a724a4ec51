import { hash } from 'node:crypto'
import { encode } from '@atcute/cbor'
import { CidLinkWrapper } from '@atcute/cid'
import type { CidLink } from '@atcute/cid'

/** A CID in its binary form: 36 bytes. */
export type Cid = Uint8Array

/** A block of a repository under its CID. */
export interface Block {
  cid: Cid
  bytes: Uint8Array
}

/** Length of a CID in its binary form. */
export const cidBytes = 36
/** CIDv1, DAG-CBOR, SHA-256 of 32 bytes. */
const cidPrefix = Uint8Array.of(0x01, 0x71, 0x12, 0x20)

/** The CID of a DAG-CBOR block. */
function cidOf(bytes: Uint8Array): Cid {
  const cid = new Uint8Array(cidBytes)
  cid.set(cidPrefix)
  cid.set(hash('sha256', bytes, 'buffer'), cidPrefix.length)
  return cid
}

/** Bytes as a block, whatever they are. */
export function blockOfBytes(bytes: Uint8Array): Block {
  return { cid: cidOf(bytes), bytes }
}

/** A value as a block. */
export function blockOf(value: unknown): Block {
  // The encoder hands out parts of larger buffers; a block that is kept must not keep those.
  return blockOfBytes(new Uint8Array(encode(value)))
}

/** The CID as the link that the CBOR encoder writes. */
export function linkTo(cid: Cid): CidLink {
  return new CidLinkWrapper(cid)
}

/** The CID as a map key: cheaper than its text form. */
export function cidKey(cid: Cid): string {
  return Buffer.from(cid.buffer, cid.byteOffset, cid.length).toString('latin1')
}

/** The CID in its text form, `bafyrei…`. */
export function cidText(cid: Cid): string {
  return linkTo(cid).$link
}
