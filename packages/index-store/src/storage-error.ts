/** The database could not be read or written. A value that it cannot take is another error. */
export class IndexStorageError extends Error {
  override readonly name = 'IndexStorageError'
}
