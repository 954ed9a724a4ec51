/** A request could not be made or answered within its bounds. */
export class FetchError extends Error {
  override readonly name = 'FetchError'

  /** The host's name does not exist, which is an answer and not a failure of the network. */
  get isNameUnknown(): boolean {
    return this.cause instanceof Error && 'code' in this.cause && this.cause.code === 'ENOTFOUND'
  }
}
