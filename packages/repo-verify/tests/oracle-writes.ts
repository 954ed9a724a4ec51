/** Random writes for repositories of the reference implementation. A seed repeats them. */
import { WriteOpAction, type RecordCreateOp, type RecordWriteOp } from '@atproto/repo'
import { keyLayer } from '../src/mst-node.ts'

/** A random number generator that a seed repeats: 0 up to `below`. */
export type Random = (below: number) => number

export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

const collections = [
  'org.impact.claim.activity',
  'org.impact.context.evaluation',
  'app.attested.graph.follow',
] as const

/** Half of the commits to repositories of up to so many records delete all of them. */
const smallSize = 30
const mixes: readonly (readonly ('create' | 'update' | 'delete')[])[] = [
  ['create'],
  ['update'],
  ['delete'],
  ['create', 'update', 'delete'],
]

/**
 * The writes of one commit, each to another path: up to `max` of one kind or of all, or
 * deletes of all that is there, alone or with creates before, between and after them. Small repositories grow slowly.
 * @param paths those that the repository has.
 */
export function randomWrites(paths: readonly string[], random: Random, max: number): RecordWriteOp[] {
  const isSmall = paths.length <= smallSize
  if (isSmall && paths.length > 0 && random(2) === 0) return replaceAll(paths, random)
  const kinds = mixes[random(mixes.length)] ?? []
  const free = [...paths]
  const writes: RecordWriteOp[] = []
  for (let left = 1 + random(isSmall ? Math.min(max, 4) : max); left > 0; left--) {
    const kind = kinds[random(kinds.length)]
    const path = kind === 'create' ? undefined : free.splice(random(free.length), 1)[0]
    if (path === undefined) writes.push(create(random, writes.length, paths.length))
    else writes.push(kind === 'delete' ? remove(path) : update(path, random))
  }
  return writes
}

function replaceAll(paths: readonly string[], random: Random): RecordWriteOp[] {
  const deletes = shuffled(paths, random).map(remove)
  // A lower tree than before is what makes the reference implementation leave a root without keys.
  const isLow = random(2) === 0
  const creates = Array.from({ length: random(4) }, (_, i) =>
    isLow ? createInLayer(0, random, i) : create(random, i, 0),
  )
  return random(4) === 0 ? shuffled([...deletes, ...creates], random) : [...deletes, ...creates]
}

/**
 * In small repositories half of the keys are sought for a layer above the lowest: these are rare otherwise, and make a
 * tree high. In large ones that would give nodes as wide as nobody has by chance, which are refused.
 * @param size how many records the repository has.
 */
export function create(random: Random, i: number, size: number): RecordCreateOp {
  const isSought = size <= smallSize && random(2) === 0
  return createInLayer(isSought ? 1 + random(4) : undefined, random, i)
}

function createInLayer(layer: number | undefined, random: Random, i: number): RecordCreateOp {
  const collection = collections[random(collections.length)] ?? collections[0]
  for (;;) {
    const rkey = `${random(2 ** 32).toString(36)}.${i}.${random(2 ** 32).toString(36)}`
    if (layer !== undefined && keyLayer(`${collection}/${rkey}`) !== layer) continue
    const record = { $type: collection, n: random(2 ** 32) }
    return { action: WriteOpAction.Create, collection, rkey, record }
  }
}

function update(path: string, random: Random): RecordWriteOp {
  const { collection, rkey } = partsOf(path)
  return { action: WriteOpAction.Update, collection, rkey, record: { $type: collection, n: random(2 ** 32) } }
}

function remove(path: string): RecordWriteOp {
  return { action: WriteOpAction.Delete, ...partsOf(path) }
}

function partsOf(path: string): { collection: (typeof collections)[number]; rkey: string } {
  const [collection, rkey] = path.split('/') as [(typeof collections)[number], string] // a path of these collections
  return { collection, rkey }
}

function shuffled<T>(values: readonly T[], random: Random): T[] {
  const rest = [...values]
  return values.flatMap(() => rest.splice(random(rest.length), 1))
}
