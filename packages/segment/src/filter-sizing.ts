/** Partition sizes of a 512-bit filter block by k, the number of bits per key (segment-format.md 7.2). */
const partitionsByK: ReadonlyMap<number, readonly number[]> = new Map(
  [
    [167, 173, 172],
    [109, 127, 137, 139],
    [97, 101, 103, 109, 102],
    [61, 79, 83, 89, 97, 103],
    [61, 67, 71, 79, 83, 89, 62],
    [37, 47, 53, 61, 67, 71, 79, 97],
    [41, 43, 47, 53, 59, 67, 71, 73, 58],
    [31, 37, 41, 43, 47, 53, 59, 61, 67, 73],
    [29, 31, 37, 41, 43, 44, 47, 53, 59, 61, 67],
    [17, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 71],
    [17, 19, 23, 29, 31, 37, 41, 43, 47, 52, 53, 59, 61],
    [11, 13, 17, 19, 23, 29, 31, 37, 41, 47, 53, 59, 61, 71],
    [11, 13, 17, 19, 23, 28, 29, 31, 37, 41, 43, 47, 53, 59, 61],
    [5, 7, 11, 13, 17, 19, 23, 27, 29, 31, 37, 41, 43, 47, 53, 109],
    [3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 32, 37, 41, 43, 47, 53, 101],
  ].map((sizes) => [sizes.length, sizes]),
)

/** The partition sizes for k, undefined for a k outside 3..17. */
export function filterPartitions(k: number): readonly number[] | undefined {
  return partitionsByK.get(k)
}

/** The shape of a filter: how many 512-bit blocks, and how many bits each key sets. */
export interface FilterShape {
  readonly numBlocks: number
  readonly k: number
}

const falsePositiveRate = 0.001
const filterBlockBits = 512
const lnTwoSquared = 0.4804530139182014

/**
 * The filter for `capacity` distinct keys at a false positive rate of 0.001, exactly as the upstream writer sizes it
 * (segment-format.md 7.3). Only writers need this; readers take the shape from the filter.
 */
export function shapeFilter(capacity: number): FilterShape {
  const keys = Math.max(capacity, 1)
  const bitsPerKey = -Math.log(falsePositiveRate) / lnTwoSquared
  let numBlocks = Math.ceil((keys * bitsPerKey) / filterBlockBits)
  const numBlocksMax = 4 * numBlocks
  for (;;) {
    const best = bestK(numBlocks, keys)
    if (best.rate <= falsePositiveRate || numBlocks >= numBlocksMax) return { numBlocks, k: best.k }
    numBlocks = Math.min(numBlocks + Math.floor(numBlocks / 8) + 1, numBlocksMax)
  }
}

function bestK(numBlocks: number, keys: number): { k: number; rate: number } {
  let best = { k: 0, rate: Infinity }
  for (const [k, partitions] of partitionsByK) {
    const rate = estimateRate(keys / numBlocks, partitions)
    if (rate < best.rate) best = { k, rate }
  }
  return best
}

/** Expected false positive rate when the keys per block are Poisson distributed around `keysPerBlock`. */
function estimateRate(keysPerBlock: number, partitions: readonly number[]): number {
  const rateWith = (keys: number): number =>
    partitions.reduce((rate, bits) => rate * (1 - (1 - 1 / bits) ** keys), 1)
  if (keysPerBlock > 10_000) return rateWith(keysPerBlock)
  const last = Math.trunc(keysPerBlock + 10 * Math.sqrt(keysPerBlock) + 20)
  let sum = 0
  let lnFactorial = 0
  for (let keys = 1; keys <= last; keys++) {
    lnFactorial += Math.log(keys)
    const probability = Math.exp(-keysPerBlock + keys * Math.log(keysPerBlock) - lnFactorial)
    if (probability < 1e-15 && keys > Math.trunc(keysPerBlock)) break
    sum += probability * rateWith(keys)
  }
  return sum
}
