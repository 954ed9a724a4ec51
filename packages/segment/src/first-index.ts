/** The first index of 0..count-1 that holds, `count` when none does. Once an index holds, all later ones must. */
export function firstIndex(count: number, holds: (i: number) => boolean): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >>> 1
    if (holds(middle)) high = middle
    else low = middle + 1
  }
  return low
}
