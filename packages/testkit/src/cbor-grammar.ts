/**
 * A grammar of CBOR: values that DAG-CBOR allows and values that it does not, drawn at random. The parts are bytes, so
 * anything can be put together that the format can say, and more.
 */
import { encode } from '@atcute/cbor'
import type { Random } from './random.ts'

/** The encoded bytes of one item. */
export type CborItem = Uint8Array
/** One field of a map: both are encoded when the map is put together. */
export type CborField = readonly [key: string | CborItem, value: CborItem]

const major = { unsigned: 0, negative: 1, bytes: 2, text: 3, array: 4, map: 5, tag: 6, simple: 7 } as const
const depthMax = 4

/** The head of an item. `width` (1, 2, 4 or 8 bytes) may be wider than needed; default: the shortest. */
export function cborHead(type: number, argument: number | bigint, width?: 1 | 2 | 4 | 8): CborItem {
  const value = BigInt(argument)
  if (width === undefined && value < 24n) return Uint8Array.of((type << 5) | Number(value))
  const bytes = width ?? (value < 0x100n ? 1 : value < 0x1_0000n ? 2 : value < 0x1_0000_0000n ? 4 : 8)
  const head = Buffer.alloc(1 + bytes)
  head[0] = (type << 5) | (24 + Math.log2(bytes))
  for (let at = bytes, rest = value; at > 0; at--, rest >>= 8n) head[at] = Number(rest & 0xffn)
  return head
}

export function cborText(text: string): CborItem {
  const bytes = Buffer.from(text)
  return Buffer.concat([cborHead(major.text, bytes.length), bytes])
}

/** A map of these fields in this order, right or not. */
export function cborMap(fields: readonly CborField[]): CborItem {
  const parts = fields.flatMap(([key, value]) => [typeof key === 'string' ? cborText(key) : key, value])
  return Buffer.concat([cborHead(major.map, fields.length), ...parts])
}

/** The fields in canonical order: shorter keys first, then by bytes. */
export function inOrder(fields: readonly CborField[]): CborField[] {
  const bytesOf = ([key]: CborField): Buffer => Buffer.from(typeof key === 'string' ? cborText(key) : key)
  return fields.toSorted((a, b) => {
    const [left, right] = [bytesOf(a), bytesOf(b)]
    return left.length - right.length || left.compare(right)
  })
}

/** The fields of a plain object. Fields that are undefined are left out. */
export function fieldsOf(body: Record<string, unknown>): CborField[] {
  const present = Object.entries(body).filter(([, value]) => value !== undefined)
  return present.map(([key, value]) => [key, encode(value).slice()])
}

/** Names that programs trip over: of the protocol, of its JSON form, of JavaScript. */
export const oddKeys: readonly string[] = [
  ['$type', '$link', '$bytes', '__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty'],
  ['did', 'repo', 'seq', 'time', 'rev', 'op', 't', 'ops', 'blocks', 'handle', 'status', 'active', 'error'],
  ['', 'a', 'zz', 'length', '0', '-1', 'é', '\u{1F600}', 'x'.repeat(23), 'x'.repeat(24), 'x'.repeat(300)],
].flat()

type Make = (random: Random, depth: number) => CborItem

/** Values that DAG-CBOR and the data model of the AT Protocol allow. */
const allowed: readonly Make[] = [
  (random) => cborHead(major.unsigned, random.below(30)),
  (random) => cborHead(major.unsigned, random.below(2 ** 32)),
  (random) => cborHead(major.negative, random.below(70_000)),
  () => cborHead(major.unsigned, Number.MAX_SAFE_INTEGER),
  () => cborHead(major.negative, Number.MAX_SAFE_INTEGER - 1),
  (random) => cborText(random.pick(oddKeys)),
  (random) => cborText('text '.repeat(random.below(60))),
  (random) => bytesItem(random.bytes(random.below(40))),
  () => Uint8Array.of(0xf4),
  () => Uint8Array.of(0xf5),
  () => Uint8Array.of(0xf6),
  (random) => link(Buffer.concat([Uint8Array.of(0, 1, 0x71, 0x12, 0x20), random.bytes(32)])),
  (random) => link(Buffer.concat([Uint8Array.of(0, 1, 0x55, 0x12, 0x20), random.bytes(32)])),
  (random, depth) => array(random, depth, allowedValue),
  (random, depth) => cborMap(inOrder(randomFields(random, depth, allowedValue))),
]

/** Values that some rule forbids. */
const forbidden: readonly Make[] = [
  // Not the shortest form.
  (random) => cborHead(major.unsigned, random.below(24), 1),
  (random) => cborHead(major.unsigned, random.below(200), random.pick([2, 4, 8] as const)),
  (random) =>
    Buffer.concat([cborHead(major.text, 3, random.pick([1, 2, 4, 8] as const)), Buffer.from('abc')]),
  (random) => Buffer.concat([cborHead(major.bytes, 2, random.pick([1, 2, 4, 8] as const)), random.bytes(2)]),
  (random) => Buffer.concat([cborHead(major.array, 1, random.pick([1, 2, 4, 8] as const)), Uint8Array.of(1)]),
  // Numbers that are not exact everywhere.
  (random) => cborHead(major.unsigned, 2n ** 53n + BigInt(random.below(1000))),
  (random) => cborHead(major.negative, 2n ** 53n - 1n + BigInt(random.below(1000))),
  () => cborHead(major.unsigned, 2n ** 64n - 1n),
  // Floats and simple values.
  (random) => float(random.next()),
  (random) => float(random.below(1000)),
  () => float(NaN),
  () => float(-Infinity),
  () => Uint8Array.of(0xf9, 0x3c, 0x00),
  () => Uint8Array.of(0xfa, 0x3f, 0x80, 0, 0),
  (random) => random.pick([Uint8Array.of(0xf7), Uint8Array.of(0xe0), Uint8Array.of(0xf8, 0xff)]),
  // Tags and links.
  (random) => Buffer.concat([cborHead(major.tag, random.pick([0, 1, 2, 43, 55_799])), cborText('2026')]),
  () => Buffer.concat([cborHead(major.tag, 42), cborText('bafy')]),
  () => Buffer.concat([cborHead(major.tag, 42, 2), bytesItem(Buffer.alloc(37))]),
  (random) => link(random.bytes(random.below(50))),
  (random) => link(Buffer.concat([Uint8Array.of(0, 1, 0x71, 0x12, 0x20), random.bytes(random.below(60))])),
  (random) => link(Buffer.concat([Uint8Array.of(0), random.bytes(36)])),
  (random) => link(Buffer.concat([Uint8Array.of(0, 0x12, 0x20), random.bytes(32)])),
  (random) => link(Buffer.concat([Uint8Array.of(0, 1, 0x70, 0x12, 0x20), random.bytes(32)])),
  (random) => link(Buffer.concat([Uint8Array.of(0, 1, 0x71, 0, 5), random.bytes(5)])),
  (random) => link(Buffer.concat([Uint8Array.of(1, 1, 0x71, 0x12, 0x20), random.bytes(32)])),
  // Lengths: indefinite, or more than there is.
  () => Uint8Array.of(0x9f, 0x01, 0xff),
  () => Uint8Array.of(0xbf, 0x61, 0x61, 0x01, 0xff),
  () => Uint8Array.of(0x7f, 0x61, 0x61, 0xff),
  () => cborHead(major.text, 2 ** 31),
  () => cborHead(major.map, 2n ** 60n),
  () => cborHead(major.array, 2n ** 32n - 1n),
  () => cborHead(major.bytes, 2n ** 40n),
  // Text and keys.
  () => Buffer.concat([cborHead(major.text, 2), Uint8Array.of(0xc3, 0x28)]),
  () => Buffer.concat([cborHead(major.text, 3), Uint8Array.of(0xed, 0xa0, 0x80)]),
  () =>
    cborMap([
      ['b', Uint8Array.of(1)],
      ['a', Uint8Array.of(2)],
    ]),
  () =>
    cborMap([
      ['a', Uint8Array.of(1)],
      ['a', Uint8Array.of(2)],
    ]),
  () => cborMap([[Uint8Array.of(1), Uint8Array.of(2)]]),
  () => cborMap([[bytesItem(Uint8Array.of(1)), Uint8Array.of(2)]]),
  // Nesting.
  (random) => nested(random.pick([40, 200, 5000]), 0x81),
  (random) =>
    Buffer.concat([
      ...Array<Uint8Array>(random.pick([40, 2000])).fill(Uint8Array.of(0xa1, 0x61, 0x61)),
      Uint8Array.of(0),
    ]),
]

/** Any value: one that DAG-CBOR allows, or, with the chance given, one that it forbids. */
export function randomCbor(random: Random, { forbiddenShare }: { forbiddenShare: number }): CborItem {
  const value: Make = (source, depth) =>
    source.next() < forbiddenShare
      ? source.pick(forbidden)(source, depth)
      : source.next() < 0.5 && depth < depthMax
        ? container(source, depth + 1, value)
        : allowedValue(source, depth)
  return value(random, 0)
}

function container(random: Random, depth: number, value: Make): CborItem {
  if (random.next() < 0.5) return array(random, depth, value)
  const fields = randomFields(random, depth, value)
  return cborMap(random.next() < 0.9 ? inOrder(fields) : fields)
}

function allowedValue(random: Random, depth: number): CborItem {
  // The last two hold other values.
  return random.pick(depth < depthMax ? allowed : allowed.slice(0, -2))(random, depth + 1)
}

function array(random: Random, depth: number, value: Make): CborItem {
  const items = Array.from({ length: random.below(5) }, () => value(random, depth + 1))
  return Buffer.concat([cborHead(major.array, items.length), ...items])
}

function randomFields(random: Random, depth: number, value: Make): CborField[] {
  const keys = new Set(Array.from({ length: random.below(5) }, () => random.pick(oddKeys)))
  return Array.from(keys, (key): CborField => [key, value(random, depth + 1)])
}

function bytesItem(bytes: Uint8Array): CborItem {
  return Buffer.concat([cborHead(major.bytes, bytes.length), bytes])
}

function link(bytes: Uint8Array): CborItem {
  return Buffer.concat([cborHead(major.tag, 42), bytesItem(bytes)])
}

function float(value: number): CborItem {
  const item = Buffer.alloc(9, 0xfb)
  item.writeDoubleBE(value, 1)
  return item
}

function nested(depth: number, head: number): CborItem {
  return Buffer.concat([Buffer.alloc(depth, head), Uint8Array.of(0xf6)])
}
