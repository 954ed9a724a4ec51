import { closestName } from '@tributary/settings'
import { XrpcError } from '@tributary/xrpc'

/**
 * Refuses a word that is none of a closed set, because a list for a mistyped word would be empty, as if nothing had happened.
 * @param parameter its name, for the message.
 * @param word undefined is accepted.
 * @throws XrpcError 400 `InvalidRequest`, with the word that was meant, or else all of them.
 */
export function refuseUnknownWord(
  parameter: string,
  word: string | undefined,
  known: readonly string[],
): void {
  if (word === undefined || known.includes(word)) return
  const meant = closestName(word, known)
  const advice = meant === undefined ? `use one of ${known.join(', ')}` : `did you mean ${meant}?`
  throw new XrpcError(400, 'InvalidRequest', `there is no ${parameter} ${word}: ${advice}`)
}
