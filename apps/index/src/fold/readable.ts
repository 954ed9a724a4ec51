import { type Did, isCid, limits, type StreamEvent } from '@tributary/protocol'

/** The record itself, and what it may hold inside. */
const recordLevelsMax = limits.cborDepth + 1
/** Values of a record in JSON, where a link or a byte string is an object with a text. */
const recordValuesMax = 2 * limits.recordValues
const revCharsMax = 64
/**
 * DIDs that can be resolved have at most 270 characters. Of rows that name two accounts and a record of each, PostgreSQL
 * takes 2,704 bytes into an index.
 */
const accountDidCharsMax = 300
/** Statuses are words like `takendown`; hosts may send others. */
const statusCharsMax = 128

/**
 * True when an event holds what the database can store and what later steps can walk through. A stream of ours sends
 * nothing else; another stream may send any JSON.
 */
export function isReadable(event: StreamEvent): boolean {
  if (!isAccountDid(event.did)) return false
  switch (event.kind) {
    case 'commit': {
      const { rev, cid, record } = event
      if (!isPlain(rev, revCharsMax) || (cid !== undefined && !isCid(cid))) return false
      return isSmall(record)
    }
    // A status that cannot be stored is left out: whether the account is active is said apart.
    case 'account':
    case 'identity':
    case 'sync':
      return true
  }
}

/** True for a DID whose records are indexed, and that others' records may refer to. Longer ones nobody can resolve. */
export function isAccountDid(did: Did): boolean {
  return did.length <= accountDidCharsMax
}

/** True for text that can be stored as the status of an account. */
export function isStatus(text: string): boolean {
  return isPlain(text, statusCharsMax)
}

/** True for text of printable ASCII. Databases refuse NUL, and replace halves of surrogate pairs. */
export function isPlain(text: string, charsMax: number): boolean {
  return text.length <= charsMax && /^[ -~]*$/.test(text)
}

/** True when a record has no more levels of lists and objects, and no more values, than one in an archive may have. */
function isSmall(record: unknown): boolean {
  let left = recordValuesMax
  const isWithin = (value: unknown, levels: number): boolean => {
    if (--left < 0) return false
    if (typeof value !== 'object' || value === null) return true
    return levels > 0 && Object.values(value).every((inner) => isWithin(inner, levels - 1))
  }
  return isWithin(record, recordLevelsMax)
}
