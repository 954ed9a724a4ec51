/**
 * The Merkle search tree of a repository, synchronous and immutable: a change returns a new root
 * and shares every untouched node, with its encoded block, so a commit costs what it changes.
 * Keys are ASCII record paths. Checked against the tree of `@atproto/repo` in the tests.
 */
import { hash } from 'node:crypto'
import { toBytes } from '@atcute/cbor'
import { blockOf, linkTo } from './cid.ts'
import type { Block, Cid } from './cid.ts'

/** One node: `children[i]` holds the keys between `keys[i - 1]` and `keys[i]`. */
export class MstNode {
  readonly layer: number
  readonly keys: readonly string[]
  readonly values: readonly Cid[]
  readonly children: readonly (MstNode | undefined)[]
  #block: Block | undefined

  constructor(
    layer: number,
    keys: readonly string[],
    values: readonly Cid[],
    children: readonly (MstNode | undefined)[],
  ) {
    this.layer = layer
    this.keys = keys
    this.values = values
    this.children = children
  }

  /** Whether the node was encoded before: then it belongs to an earlier tree too. */
  get isEncoded(): boolean {
    return this.#block !== undefined
  }

  /** The node as a block. Encodes the nodes below it that are not encoded yet. */
  get block(): Block {
    this.#block ??= blockOf(nodeData(this))
    return this.#block
  }
}

export const emptyTree: MstNode = new MstNode(0, [], [], [undefined])

/** The layer a key belongs to: leading zeros of its SHA-256, in pairs of bits. */
function layerOf(key: string): number {
  const digest = hash('sha256', key, 'buffer')
  let pairs = 0
  for (const byte of digest) {
    if (byte !== 0) return pairs + ((Math.clz32(byte) - 24) >> 1)
    pairs += 4
  }
  return pairs
}

function keyIndex(node: MstNode, key: string): number {
  let low = 0
  let high = node.keys.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((node.keys[middle] ?? '') < key) low = middle + 1
    else high = middle
  }
  return low
}

/** The value under `key`, or undefined. */
export function valueAt(root: MstNode, key: string): Cid | undefined {
  let node: MstNode | undefined = root
  while (node !== undefined) {
    const index = keyIndex(node, key)
    if (node.keys[index] === key) return node.values[index]
    node = node.children[index]
  }
  return undefined
}

/** Adds a key. Throws `RangeError` when it is there already. */
export function insert(root: MstNode, key: string, value: Cid): MstNode {
  return insertAt(root, key, value, layerOf(key))
}

function insertAt(node: MstNode, key: string, value: Cid, layer: number): MstNode {
  if (layer > node.layer) {
    const [left, right] = split(node, key)
    const children = [raise(left, layer - 1), raise(right, layer - 1)]
    return new MstNode(layer, [key], [value], children)
  }
  const index = keyIndex(node, key)
  if (node.keys[index] === key) throw new RangeError(`${key} is in the tree`)
  const child = node.children[index]
  if (layer === node.layer) {
    return new MstNode(
      layer,
      node.keys.toSpliced(index, 0, key),
      node.values.toSpliced(index, 0, value),
      node.children.toSpliced(index, 1, ...split(child, key)),
    )
  }
  const below = child ?? new MstNode(node.layer - 1, [], [], [undefined])
  return withChild(node, index, insertAt(below, key, value, layer))
}

/** Replaces the value of a key. Throws `RangeError` when it is not there. */
export function replace(node: MstNode, key: string, value: Cid): MstNode {
  const index = keyIndex(node, key)
  if (node.keys[index] === key) {
    return new MstNode(node.layer, node.keys, node.values.with(index, value), node.children)
  }
  const child = node.children[index]
  if (child === undefined) throw new RangeError(`${key} is not in the tree`)
  return withChild(node, index, replace(child, key, value))
}

/** Removes a key. A tree that has none left keeps its height. Throws `RangeError` when the key is not there. */
export function remove(root: MstNode, key: string): MstNode {
  let top = removeAt(root, key)
  while (top !== undefined && top.keys.length === 0) top = top.children[0]
  return top ?? new MstNode(root.layer, [], [], [undefined])
}

function removeAt(node: MstNode, key: string): MstNode | undefined {
  const index = keyIndex(node, key)
  if (node.keys[index] === key) {
    const merged = merge(node.children[index], node.children[index + 1])
    return nodeUnlessEmpty(
      node.layer,
      node.keys.toSpliced(index, 1),
      node.values.toSpliced(index, 1),
      node.children.toSpliced(index, 2, merged),
    )
  }
  const child = node.children[index]
  if (child === undefined) throw new RangeError(`${key} is not in the tree`)
  const children = node.children.with(index, removeAt(child, key))
  return nodeUnlessEmpty(node.layer, node.keys, node.values, children)
}

function nodeUnlessEmpty(
  layer: number,
  keys: readonly string[],
  values: readonly Cid[],
  children: readonly (MstNode | undefined)[],
): MstNode | undefined {
  if (keys.length === 0 && children[0] === undefined) return undefined
  return new MstNode(layer, keys, values, children)
}

function withChild(node: MstNode, index: number, child: MstNode): MstNode {
  return new MstNode(node.layer, node.keys, node.values, node.children.with(index, child))
}

/** Puts nodes with nothing but one child on top until the node stands at `layer`. */
function raise(node: MstNode | undefined, layer: number): MstNode | undefined {
  let raised = node
  while (raised !== undefined && raised.layer < layer) {
    raised = new MstNode(raised.layer + 1, [], [], [raised])
  }
  return raised
}

type Halves = [MstNode | undefined, MstNode | undefined]

/** The parts of a tree before and after a key that is not in it. */
function split(node: MstNode | undefined, key: string): Halves {
  if (node === undefined) return [undefined, undefined]
  const index = keyIndex(node, key)
  const [left, right] = split(node.children[index], key)
  const { layer, keys, values, children } = node
  return [
    nodeUnlessEmpty(layer, keys.slice(0, index), values.slice(0, index), [...children.slice(0, index), left]),
    nodeUnlessEmpty(layer, keys.slice(index), values.slice(index), [right, ...children.slice(index + 1)]),
  ]
}

/** Joins two trees of one layer, all keys of `left` being before those of `right`. */
function merge(left: MstNode | undefined, right: MstNode | undefined): MstNode | undefined {
  if (left === undefined) return right
  if (right === undefined) return left
  return new MstNode(
    left.layer,
    [...left.keys, ...right.keys],
    [...left.values, ...right.values],
    [
      ...left.children.slice(0, -1),
      merge(left.children.at(-1), right.children[0]),
      ...right.children.slice(1),
    ],
  )
}

/** The nodes on the way to `key` and to its neighbours: what undoing a change of it needs. */
export function* coveringNodes(root: MstNode, key: string): Generator<MstNode> {
  let node: MstNode | undefined = root
  while (node !== undefined) {
    yield node
    const index = keyIndex(node, key)
    if (node.keys[index] === key) {
      yield* edge(node.children[index], -1)
      yield* edge(node.children[index + 1], 0)
      return
    }
    node = node.children[index]
  }
}

function* edge(top: MstNode | undefined, side: 0 | -1): Generator<MstNode> {
  for (let node = top; node !== undefined; node = node.children.at(side)) yield node
}

/** The nodes of a tree that no earlier tree had, the root first. Call it before any is encoded. */
export function* newNodes(root: MstNode): Generator<MstNode> {
  if (root.isEncoded) return
  yield root
  for (const child of root.children) if (child !== undefined) yield* newNodes(child)
}

/** Every node of a tree, in the order of a depth-first walk. */
export function* allNodes(root: MstNode): Generator<MstNode> {
  yield root
  for (const child of root.children) if (child !== undefined) yield* allNodes(child)
}

/** Every key of a tree with its value, in key order. */
export function* entries(root: MstNode): Generator<[key: string, value: Cid]> {
  for (const [index, child] of root.children.entries()) {
    if (child !== undefined) yield* entries(child)
    const key = root.keys[index]
    const value = root.values[index]
    if (key !== undefined && value !== undefined) yield [key, value]
  }
}

function nodeData(node: MstNode): object {
  let before = ''
  const items = node.keys.map((key, index) => {
    const shared = sharedPrefix(before, key)
    before = key
    return {
      p: shared,
      k: toBytes(Buffer.from(key.slice(shared), 'ascii')),
      v: linkTo(node.values[index] as Cid), // reason: as many values as keys.
      t: linkToNode(node.children[index + 1]),
    }
  })
  return { l: linkToNode(node.children[0]), e: items }
}

function linkToNode(node: MstNode | undefined): ReturnType<typeof linkTo> | null {
  return node === undefined ? null : linkTo(node.block.cid)
}

function sharedPrefix(left: string, right: string): number {
  let length = 0
  while (length < left.length && left.charCodeAt(length) === right.charCodeAt(length)) length++
  return length
}
