/** Part of a name that may be mistyped, so that it is still recognised. */
const mistypedPart = 0.4
/** Longer words are nobody's mistake, and would take long to compare. */
const charsMax = 100

/** The name that somebody meant who typed this word. Undefined when none is near. */
export function closestName(word: string, names: Iterable<string>): string | undefined {
  if (word.length > charsMax) return undefined
  let closest: { name: string; distance: number } | undefined
  for (const name of names) {
    const distance = editDistance(word, name)
    if (distance > mistypedPart * Math.max(bareChars(word), bareChars(name))) continue
    if (closest === undefined || distance < closest.distance) closest = { name, distance }
  }
  return closest?.name
}

/** What every flag and every variable begins with makes none of them alike. */
function bareChars(name: string): number {
  return name.replace(/^(--|TRIBUTARY_)/, '').length
}

/** How many letters have to be left out, put in, changed, or swapped with the next one. */
function editDistance(one: string, other: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let i = 1; i <= one.length; i++) {
    const row = [i]
    for (let j = 1; j <= other.length; j++) {
      const isSame = one[i - 1] === other[j - 1]
      const isSwapped = one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]
      row[j] = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (isSame ? 0 : 1),
        isSwapped ? (beforeLast[j - 2] ?? 0) + 1 : Infinity,
      )
    }
    beforeLast = last
    last = row
  }
  return last[other.length] ?? 0
}
