/** The first index from `low` up to `high`, exclusive, that holds; `high` when none does. Once one holds, all later ones must. */
export function firstIndex(low: number, high: number, holds: (i: number) => boolean): number {
  while (low < high) {
    const middle = (low + high) >>> 1
    if (holds(middle)) high = middle
    else low = middle + 1
  }
  return low
}
