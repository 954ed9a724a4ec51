/**
 * What strict decoders of consumers make of a message: `@atproto/lex-cbor`, `@atcute/cbor` and `@ipld/dag-cbor` must
 * read the same value from it, and each must write the same bytes again.
 */
import { BytesWrapper, CidLinkWrapper, decodeFirst, encode as encodeAtcute } from '@atcute/cbor'
import { decode as decodeLex, decodeAll, encode as encodeLex } from '@atproto/lex-cbor'
import { decode as decodeIpld, encode as encodeIpld } from '@ipld/dag-cbor'

/** Says what is wrong with the two objects of a message, or undefined when every decoder agrees. */
export function strictFault(message: Uint8Array): string | undefined {
  let at = 0
  for (const part of ['header', 'payload']) {
    const split = lengthOfFirst(message.subarray(at))
    if (typeof split === 'string') return `${part}: ${split}`
    const fault = objectFault(message.subarray(at, at + split))
    if (fault !== undefined) return `${part}: ${fault}`
    at += split
  }
  return at === message.length ? undefined : `${message.length - at} bytes follow the payload`
}

/** The header and the payload as a decoder reads them that does not ask for canonical order. Undefined when it cannot. */
export function readLoosely(message: Uint8Array): Record<string, unknown>[] | undefined {
  try {
    // Objects, or nothing that the caller finds a field in.
    return [...decodeAll(message)] as Record<string, unknown>[]
  } catch {
    return undefined
  }
}

interface Decoder {
  name: string
  decode: (bytes: Uint8Array) => unknown
  encode: (value: unknown) => Uint8Array
}

const decoders: readonly Decoder[] = [
  { name: '@atcute/cbor', decode: (bytes) => decodeFirst(bytes)[0] as unknown, encode: encodeAtcute },
  // The values come from its own decoder.
  { name: '@atproto/lex-cbor', decode: decodeLex, encode: (value) => encodeLex(value as never) },
  { name: '@ipld/dag-cbor', decode: decodeIpld, encode: encodeIpld },
]

/** What is wrong with the bytes of one object. */
export function objectFault(bytes: Uint8Array): string | undefined {
  let first: string | undefined
  for (const { name, decode, encode } of decoders) {
    let step = 'decode it'
    try {
      const value = decode(bytes)
      const shown = show(value)
      if (first !== undefined && first !== shown) return `${name} reads another value from it`
      first = shown
      step = 'encode its own value'
      if (!Buffer.from(encode(value)).equals(bytes)) return `${name} encodes its value to other bytes`
    } catch (error) {
      return `${name} does not ${step}: ${String(error)}`
    }
  }
  return undefined
}

function lengthOfFirst(bytes: Uint8Array): number | string {
  try {
    return bytes.length - decodeFirst(bytes)[1].length
  } catch (error) {
    return `@atcute/cbor does not decode it: ${String(error)}`
  }
}

/** The value as a text that is the same for every decoder that read the same. */
function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (typeof value !== 'object' || value === null) return `${typeof value} ${String(value)}`
  if (ArrayBuffer.isView(value)) return `bytes ${hex(value)}`
  // Not `instanceof`: a field `__proto__` of a message may have become the prototype of its map.
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === BytesWrapper.prototype) return `bytes ${hex((value as BytesWrapper).buf)}` // by its prototype
  if (prototype === CidLinkWrapper.prototype) return `link ${hex((value as CidLinkWrapper).bytes)}` // by its prototype
  if (Array.isArray(value)) return `[${value.map(show).join(',')}]`
  if (isCid(value)) return `link ${hex(value.bytes)}`
  const pairs = Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}:${show(inner)}`)
  return `{${pairs.toSorted().join(',')}}`
}

/** A CID of the library that `@atproto/lex-cbor` and `@ipld/dag-cbor` share, in whichever version. */
function isCid(value: object): value is { bytes: Uint8Array } {
  return 'asCID' in value && 'multihash' in value && 'bytes' in value && ArrayBuffer.isView(value.bytes)
}

function hex(bytes: ArrayBufferView): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}
