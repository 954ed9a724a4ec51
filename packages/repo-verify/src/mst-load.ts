/**
 * Loads what a CAR holds of a tree of records, and checks every node of it: order, layers, depth.
 *
 * A bare level is a node without keys above one subtree. Between keys such nodes are part of every tree that needs
 * them. At the top they mean nothing, and a producer should leave them off; `mst-heights.ts` says why real trees
 * begin with some all the same. Loading counts them and goes on below.
 */
import { limits } from '@tributary/protocol'
import { blockAt, type Car } from './car.ts'
import { isEmpty, keyLayer, layerMax, none, readNode, type Child, type MstNode } from './mst-node.ts'
import { refuse } from './refusal.ts'

export interface LoadedTree {
  /** The topmost node with keys. `none` if the tree is empty. */
  root: Child
  /** Its layer. */
  layer: number
  /** How many bare levels lay above it. */
  bareLevels: number
}

export interface LoadOptions {
  /** True takes it that every key is in its layer. Default false. */
  layersKnown?: boolean
  /** How long all keys together may be, written out. Default 4,000,000: twice what the CAR of a commit may have. */
  keyBytesMax?: number
}

interface Loading {
  car: Car
  layersKnown: boolean
  /** Keys share prefixes in a node, so their sum can be many times the size of the CAR. */
  keyBytesLeft: number
  seen: Set<number>
}

const keyBytesMaxDefault = 2 * limits.commitBlocksBytes

/**
 * Loads the tree whose root's digest stands at a position of the CAR's bytes.
 * @throws RefusedError `missing-block` without the nodes down to the topmost key, `invalid-mst`.
 */
export function loadTree(car: Car, rootAt: number, options: LoadOptions): LoadedTree {
  const { layersKnown = false, keyBytesMax = keyBytesMaxDefault } = options
  let linkedAt = rootAt
  for (let bareLevels = 0; bareLevels <= layerMax; bareLevels++) {
    const block = blockAt(car, linkedAt) ?? refuse('missing-block', 'the root of the tree is not in the CAR')
    const root = readNode(car.bytes, block.start, block.end, linkedAt)
    const [firstKey] = root.keys
    if (firstKey !== undefined) {
      root.layer = keyLayer(firstKey)
      if (bareLevels > 0 && root.layer + bareLevels > layerMax) break
      completeNode(root, '', undefined, { car, layersKnown, keyBytesLeft: keyBytesMax, seen: new Set() })
      return { root, layer: root.layer, bareLevels }
    }
    const [left] = root.children
    if (typeof left !== 'number' || left === none) {
      if (bareLevels > 0) refuse('invalid-mst', 'the tree has an empty node')
      return { root: none, layer: 0, bareLevels }
    }
    linkedAt = left
  }
  return refuse('invalid-mst', 'the tree has too many levels without keys at its top')
}

/** Checks a node whose keys must lie between two others, and loads its children. The layer bounds the depth. */
function completeNode(node: MstNode, above: string, below: string | undefined, loading: Loading): void {
  const { keys, children, layer } = node
  for (const key of keys) {
    loading.keyBytesLeft -= key.length
    if (!loading.layersKnown && keyLayer(key) !== layer)
      refuse('invalid-mst', `key ${key} lies in the wrong layer of the tree`)
  }
  if (loading.keyBytesLeft < 0) refuse('invalid-mst', 'the keys of the tree are too long together')
  const first = keys[0]
  const last = keys.at(-1)
  const isInOrder =
    (first === undefined || first > above) && (last === undefined || below === undefined || last < below)
  if (!isInOrder) refuse('invalid-mst', 'keys of the tree are out of order')
  for (let i = 0; i < children.length; i++) {
    const child = children[i]
    if (typeof child === 'number' && child !== none) {
      children[i] = loadChild(child, layer - 1, keys[i - 1] ?? above, keys[i] ?? below, loading)
    }
  }
}

function loadChild(
  linkedAt: number,
  layer: number,
  above: string,
  below: string | undefined,
  loading: Loading,
): Child {
  const { car, seen } = loading
  const block = blockAt(car, linkedAt)
  if (!block) return linkedAt
  // Keys are unique, so no subtree can stand in two places. This bounds the work by the size of the CAR.
  if (seen.has(block.start)) refuse('invalid-mst', 'a node stands in two places of the tree')
  seen.add(block.start)
  if (layer < 0) refuse('invalid-mst', 'the tree goes on below its lowest layer')
  const node = readNode(car.bytes, block.start, block.end, linkedAt)
  if (isEmpty(node)) refuse('invalid-mst', 'the tree has an empty node')
  node.layer = layer
  completeNode(node, above, below, loading)
  return node
}
