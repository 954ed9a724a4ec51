import type { Did } from '@tributary/protocol'

/** The addresses of an account's records lie strictly between these two, compared by bytes: `0` follows `/`. */
export function addressRange(did: Did): [from: string, to: string] {
  return [`at://${did}/`, `at://${did}0`]
}
