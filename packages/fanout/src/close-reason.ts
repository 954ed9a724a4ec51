/** Close codes that we use. Others make the common clients give up for good. */
export type CloseCode = 1001 | 1007 | 1008 | 1011 | 1012 | 1013

/**
 * Why a consumer is disconnected. It is told the name and the message in an error frame, then the code; in a dialogue
 * the message comes with the code. The fan-out adds to the message where a subscriber stood.
 */
export class CloseReason extends Error {
  override readonly name = 'CloseReason'
  readonly code: CloseCode
  /** Name of the error as the lexicon spells it, such as `ConsumerTooSlow`. */
  readonly error: string

  constructor(code: CloseCode, error: string, message: string) {
    super(message)
    this.code = code
    this.error = error
  }
}

/** Bytes that the reason of a close frame may have. */
const reasonBytesMax = 123

/** A message as the reason of a close frame, cut between two characters if it is too long. */
export function closeText(message: string): string {
  const bytes = new TextEncoder().encode(message).subarray(0, reasonBytesMax)
  return new TextDecoder().decode(bytes, { stream: true })
}
