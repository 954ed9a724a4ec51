/**
 * How high the tree before a commit may have stood.
 *
 * The height of a tree is the layer of its root. Entries call for the layer of the topmost key, but `@atproto/repo`, and
 * so every PDS built on it, can leave bare levels above. It handles a tree in memory like this:
 * - A delete cuts bare levels off, unless no record remains. The empty tree keeps its height until it is stored, if it
 *   was known: after a delete before, or in a producer that keeps its objects.
 * - A create cuts nothing off. A key above the root makes the tree higher, one in the layer of a bare root fills it.
 * - An update leaves the height alone.
 * So when a commit deletes every record and then creates others, the new tree can stand as high as the old one did. It
 * keeps this height until a later commit deletes something or creates a key as high.
 *
 * Entries and height together determine every node of a tree, hence its digest. If the digest of the inverted tree at
 * some height is `prevData`, the tree before is proven to have had just these entries. Its height is proven with them,
 * but often nothing else tells what it should have been, because deletes cut it off. Where the commit does tell, other
 * heights are refused. Without `prevData` nothing tells either, so any height passes.
 */
import { keyLayer, layerMax } from './mst-node.ts'
import { refuse } from './refusal.ts'

export interface HeightChange {
  /** Height of the tree after the commit, with its bare levels. */
  height: number
  /** How many of them it has. */
  bareLevels: number
  /** Keys that the commit deletes. */
  deleted: readonly string[]
}

export interface Heights {
  lowest: number
  highest: number
}

/** @throws RefusedError always. */
export function refuseBareLevels(): never {
  refuse('invalid-mst', 'the tree has levels without keys at its top that the commit does not explain')
}

/**
 * The heights that the tree before may have had. For a tree after with bare levels and deletes, the caller must
 * have made sure that the commit deletes all that was there.
 * @throws RefusedError `invalid-mst` if there is none that leads to the tree after.
 */
export function heightsBefore({ height, bareLevels, deleted }: HeightChange): Heights {
  // Creates and updates keep bare levels. A tree without any may have lost its own to a create.
  if (deleted.length === 0) return { lowest: bareLevels > 0 ? height : 0, highest: height }
  // A delete cut off whatever there was.
  if (bareLevels === 0) return { lowest: 0, highest: layerMax }
  // The only delete found the height that it left.
  if (deleted.length === 1) return { lowest: height, highest: height }
  // The last but one delete cut the tree down to the key of the last one, whichever that was.
  if (!deleted.some((key) => keyLayer(key) === height)) refuseBareLevels()
  return { lowest: 0, highest: layerMax }
}
