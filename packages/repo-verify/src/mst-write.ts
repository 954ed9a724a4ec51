/** Writes changed nodes of the tree anew, to find out their digests. */
import { sha256, type Digest } from './digest.ts'
import { none, type Child, type MstNode } from './mst-node.ts'

const linkHead = Buffer.from([0xd8, 0x2a, 0x58, 0x25, 0x00, 0x01, 0x71, 0x12, 0x20])
const linkBytes = linkHead.length + 32
/** What an entry takes besides its key, at most. */
const entryBytesMax = 20 + 2 * linkBytes
const sharedScratch = Buffer.alloc(64 * 1024)

/** `{"e": [], "l": …}` up to the link. */
const bareLevelHead = Buffer.from('a2616580616c', 'hex')

/** The bytes of a node that has no keys and no children: the whole of an empty tree. */
export const emptyTree: Digest = sha256(Buffer.concat([bareLevelHead, Buffer.of(0xf6)]))

/** The digest of a bare level: a node without keys above this one subtree. */
export function bareLevelDigest(below: Digest): Digest {
  return sha256(Buffer.concat([bareLevelHead, linkHead, Buffer.from(below, 'latin1')]))
}

/** The digest of a changed node, after those of its changed children. `bytes` is what positions refer to. */
export function changedDigest(bytes: Buffer, node: MstNode): Digest {
  const digests = childDigests(bytes, node)
  return sha256(node.change === 'whole' ? writeNode(bytes, node, digests) : patchNode(bytes, node, digests))
}

/** The digests of those children that were changed, by their place. */
function childDigests(bytes: Buffer, { children }: MstNode): (Digest | undefined)[] {
  const digests: (Digest | undefined)[] = []
  for (let i = 0; i < children.length; i++) {
    const child = children[i]
    if (typeof child === 'object' && child.change !== 'none') digests[i] = changedDigest(bytes, child)
  }
  return digests
}

/** The node as it was sent, with other digests where it links to changed children: most nodes on the way to a change. */
function patchNode(bytes: Buffer, node: MstNode, digests: (Digest | undefined)[]): Buffer {
  const patched = scratch(node.end - node.start)
  const size = bytes.copy(patched, 0, node.start, node.end)
  for (let i = 0; i < digests.length; i++) {
    const digest = digests[i]
    const child = node.children[i]
    if (digest !== undefined && typeof child === 'object')
      patched.write(digest, child.linkedAt - node.start, 'latin1')
  }
  return patched.subarray(0, size)
}

function writeNode(bytes: Buffer, node: MstNode, digests: (Digest | undefined)[]): Buffer {
  const { keys, values, children } = node
  const writer = new NodeWriter(
    bytes,
    scratch(keys.reduce((sum, key) => sum + key.length + entryBytesMax, 16 + linkBytes)),
  )
  let previous = ''
  writer.byte(0xa2)
  writer.field('e')
  writer.head(0x80, keys.length)
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string // i is below the length
    const prefixLength = commonPrefix(previous, key)
    writer.byte(0xa4)
    writer.field('k')
    writer.head(0x40, key.length - prefixLength)
    writer.ascii(key, prefixLength)
    writer.field('p')
    writer.head(0x00, prefixLength)
    writer.field('t')
    writer.link(children[i + 1] ?? none, digests[i + 1])
    writer.field('v')
    writer.link(values[i] ?? none, undefined)
    previous = key
  }
  writer.field('l')
  writer.link(children[0] ?? none, digests[0])
  return writer.written()
}

function commonPrefix(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length)
  let i = 0
  while (i < shorter && a.charCodeAt(i) === b.charCodeAt(i)) i++
  return i
}

/** Valid until the next call. */
function scratch(size: number): Buffer {
  return size <= sharedScratch.length ? sharedScratch : Buffer.allocUnsafe(size)
}

/** Writes the few kinds of CBOR that a node has, into a buffer that is large enough. */
class NodeWriter {
  readonly #source: Buffer
  readonly #bytes: Buffer
  #at = 0
  constructor(source: Buffer, bytes: Buffer) {
    this.#source = source
    this.#bytes = bytes
  }

  byte(value: number): void {
    this.#bytes[this.#at++] = value
  }

  field(name: string): void {
    this.byte(0x61)
    this.byte(name.charCodeAt(0))
  }

  head(type: number, argument: number): void {
    if (argument < 24) return this.byte(type | argument)
    const size = argument < 0x100 ? 1 : argument < 0x10000 ? 2 : 4
    this.byte(type | (size === 1 ? 24 : size === 2 ? 25 : 26))
    this.#at = this.#bytes.writeUIntBE(argument, this.#at, size)
  }

  ascii(text: string, from: number): void {
    for (let i = from; i < text.length; i++) this.byte(text.charCodeAt(i))
  }

  /** Writes a link to what stands at a position, or to a digest that was made anew. */
  link(target: Child, digest: Digest | undefined): void {
    if (target === none) return this.byte(0xf6)
    this.#bytes.set(linkHead, this.#at)
    const at = this.#at + linkHead.length
    const position = typeof target === 'number' ? target : target.linkedAt
    if (digest === undefined) this.#source.copy(this.#bytes, at, position, position + 32)
    else this.#bytes.write(digest, at, 'latin1')
    this.#at += linkBytes
  }

  written(): Buffer {
    return this.#bytes.subarray(0, this.#at)
  }
}
