/**
 * A tree of records of which only some nodes may be known, changed in memory. Nodes that were not sent stay links:
 * a change that would have to look into one is refused, so the outcome is either exact or there is none.
 * Loading (`mst-load.ts`) checks every node that was sent, so the operations can rely on order and layers.
 * Bare levels are left off when a tree is loaded, so the tree in memory is always the one that its entries call for.
 */
import type { Car } from './car.ts'
import { digestAt, type Digest } from './digest.ts'
import type { Heights } from './mst-heights.ts'
import { loadTree, type LoadOptions } from './mst-load.ts'
import {
  isEmpty,
  keyLayer,
  newNode,
  nodeKeysMax,
  none,
  refuseWideNode,
  type Child,
  type MstNode,
} from './mst-node.ts'
import { bareLevelDigest, changedDigest, emptyTree } from './mst-write.ts'
import { refuse } from './refusal.ts'

export interface TreeEntry {
  key: string
  /** Where the digest of the record stands. */
  valueAt: number
}

export class MstTree {
  readonly #bytes: Buffer
  #root: Child
  /** The layer of the root, which is that of its keys. Of no meaning while the tree is empty. */
  #layer: number
  /** How many bare levels the tree had when it was loaded. */
  readonly bareLevels: number
  /** The layer of its root at that time, bare or not. */
  readonly height: number

  /**
   * Loads what a CAR holds of the tree whose root's digest stands at a position of its bytes.
   * @throws RefusedError `missing-block` without the root node, `invalid-mst`.
   */
  constructor(car: Car, rootAt: number, options: LoadOptions = {}) {
    this.#bytes = car.bytes
    const { root, layer, bareLevels } = loadTree(car, rootAt, options)
    this.#root = root
    this.#layer = layer
    this.bareLevels = bareLevels
    this.height = layer + bareLevels
  }

  /** The digest of the root without bare levels. */
  digest(): Digest {
    const root = this.#root
    if (root === none) return emptyTree
    if (typeof root === 'number') return digestAt(this.#bytes, root)
    return root.change === 'none' ? digestAt(this.#bytes, root.linkedAt) : changedDigest(this.#bytes, root)
  }

  /** Whether this is the digest of the tree's root, at one of these heights. */
  hasRoot(root: Digest, { lowest, highest }: Heights): boolean {
    let digest = this.digest()
    if (this.#root === none) return digest === root
    for (let height = this.#layer; height <= highest; height++) {
      if (height >= lowest && digest === root) return true
      digest = bareLevelDigest(digest)
    }
    return false
  }

  /** The value of a key, undefined if the tree does not have it. @throws RefusedError `missing-block`. */
  get(key: string, layer: number = keyLayer(key)): Digest | undefined {
    let node = known(this.#root)
    while (node && node.layer > layer) node = known(node.children[position(node, key)])
    return node && this.#valueIn(node, key)
  }

  /** Replaces the value of a key. Returns what it was; undefined if the tree does not have the key. */
  update(key: string, valueAt: number): Digest | undefined {
    const layer = keyLayer(key)
    let node = known(this.#root)
    while (node && node.layer > layer) {
      touch(node)
      node = known(node.children[position(node, key)])
    }
    const before = node && this.#valueIn(node, key)
    if (!node || before === undefined) return undefined
    node.change = 'whole'
    node.values[position(node, key)] = valueAt
    return before
  }

  /**
   * Removes a key, and the levels at the top of the tree that then hold no key.
   * Returns its value, undefined if the tree does not have the key.
   */
  remove(key: string): Digest | undefined {
    const layer = keyLayer(key)
    const before = this.get(key, layer)
    if (before === undefined) return undefined
    this.#root = remove(this.#root, key, layer)
    while (typeof this.#root === 'object' && this.#root.keys.length === 0) {
      this.#root = this.#root.children[0] ?? none
      this.#layer--
    }
    return before
  }

  /** Adds a key that the tree does not have. */
  insert(key: string, valueAt: number): void {
    const layer = keyLayer(key)
    let root = known(this.#root)
    while (root && root.layer < layer) root = newNode(root.layer + 1, [], [], [root])
    this.#layer = root?.layer ?? layer
    this.#root = insert(root ?? none, this.#layer, { key, valueAt, layer })
  }

  /** All entries in order. @throws RefusedError `missing-block` where a part of the tree was not sent. */
  entries(): Generator<TreeEntry> {
    return entriesOf(this.#root)
  }

  #valueIn(node: MstNode, key: string): Digest | undefined {
    const i = position(node, key)
    const value = node.values[i]
    return node.keys[i] === key && value !== undefined ? digestAt(this.#bytes, value) : undefined
  }
}

function* entriesOf(child: Child | undefined): Generator<TreeEntry> {
  const node = known(child)
  if (!node) return
  yield* entriesOf(node.children[0])
  for (const [i, key] of node.keys.entries()) {
    yield { key, valueAt: node.values[i] ?? none }
    yield* entriesOf(node.children[i + 1])
  }
}

/** @throws RefusedError `missing-block` for a subtree that was not sent. */
function known(child: Child | undefined): MstNode | undefined {
  if (typeof child === 'object') return child
  return child === none || child === undefined
    ? undefined
    : refuse('missing-block', 'a part of the tree that is needed is not in the CAR')
}

/** Where a key stands among those of a node: the first that is not smaller. */
function position(node: MstNode, key: string): number {
  let low = 0
  let high = node.keys.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((node.keys[middle] as string) < key) low = middle + 1 // middle is below the length
    else high = middle
  }
  return low
}

/** Notes that something below a node changes. */
function touch(node: MstNode): void {
  if (node.change === 'none') node.change = 'children'
}

function remove(child: Child | undefined, key: string, layer: number): Child {
  const node = known(child)
  if (!node || node.layer < layer) refuse('invalid-mst', `the tree does not have ${key}`)
  const i = position(node, key)
  if (node.layer > layer) {
    const left = remove(node.children[i], key, layer)
    return replaceChild(node, i, left)
  }
  if (node.keys[i] !== key) refuse('invalid-mst', `the tree does not have ${key}`)
  node.change = 'whole'
  node.keys.splice(i, 1)
  node.values.splice(i, 1)
  node.children.splice(i, 2, merge(node.children[i] ?? none, node.children[i + 1] ?? none))
  return unlessEmpty(node)
}

/** Puts a subtree in the place of another and returns the node, or nothing if nothing is left of it. */
function replaceChild(node: MstNode, i: number, child: Child): Child {
  if (node.children[i] === child) touch(node)
  else node.change = 'whole'
  node.children[i] = child
  return unlessEmpty(node)
}

/** Joins two subtrees of the same layer, all keys of the first being smaller. */
function merge(left: Child, right: Child): Child {
  if (left === none || right === none) return left === none ? right : left
  const a = known(left)
  const b = known(right)
  if (!a || !b) return none
  if (a.keys.length + b.keys.length > nodeKeysMax) refuseWideNode()
  const middle = merge(a.children.at(-1) ?? none, b.children[0] ?? none)
  const children = [...a.children.slice(0, -1), middle, ...b.children.slice(1)]
  return newNode(a.layer, a.keys.concat(b.keys), a.values.concat(b.values), children)
}

interface Entry {
  key: string
  valueAt: number
  layer: number
}

function insert(child: Child, layer: number, entry: Entry): MstNode {
  const node = known(child) ?? newNode(layer, [], [], [none])
  const i = position(node, entry.key)
  if (node.keys[i] === entry.key) refuse('invalid-mst', `the tree already has ${entry.key}`)
  if (layer > entry.layer) {
    replaceChild(node, i, insert(node.children[i] ?? none, layer - 1, entry))
    return node
  }
  const [left, right] = split(node.children[i] ?? none, entry.key)
  node.change = 'whole'
  node.keys.splice(i, 0, entry.key)
  node.values.splice(i, 0, entry.valueAt)
  node.children.splice(i, 1, left, right)
  return node
}

/** Parts a subtree into what is smaller than a key and what is larger. */
function split(child: Child, key: string): [Child, Child] {
  const node = known(child)
  if (!node) return [none, none]
  const { layer, keys, values, children } = node
  const i = position(node, key)
  if (keys[i] === key) refuse('invalid-mst', `the tree already has ${key}`)
  const [left, right] = split(children[i] ?? none, key)
  const before = newNode(layer, keys.slice(0, i), values.slice(0, i), [...children.slice(0, i), left])
  const after = newNode(layer, keys.slice(i), values.slice(i), [right, ...children.slice(i + 1)])
  return [unlessEmpty(before), unlessEmpty(after)]
}

function unlessEmpty(node: MstNode): Child {
  return isEmpty(node) ? none : node
}
