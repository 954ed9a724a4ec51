/** Close codes that we use. Others make the common clients give up for good. */
export type CloseCode = 1001 | 1008 | 1011 | 1012 | 1013

/** Why a consumer is disconnected. It is told the name and the message in an error frame, then the code. */
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
