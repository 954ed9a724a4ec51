/** A request could not be made or answered within its bounds. */
export class FetchError extends Error {
  override readonly name = 'FetchError'
  /** The answer has more bytes than it may. */
  readonly isTooLarge: boolean

  constructor(
    message: string,
    { isTooLarge = false, ...options }: ErrorOptions & { isTooLarge?: boolean } = {},
  ) {
    super(message, options)
    this.isTooLarge = isTooLarge
  }

  /** The host's name does not exist, which is an answer and not a failure of the network. */
  get isNameUnknown(): boolean {
    return this.cause instanceof Error && 'code' in this.cause && this.cause.code === 'ENOTFOUND'
  }
}
