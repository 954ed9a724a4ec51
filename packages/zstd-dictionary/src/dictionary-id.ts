const magic = 0xec30a437
/** Magic, id, and the first of the tables. */
const bytesMin = 9

/**
 * The id that a structured dictionary carries.
 * @throws RangeError when the bytes are not such a dictionary.
 */
export function dictionaryId(dictionary: Uint8Array): number {
  const view = new DataView(dictionary.buffer, dictionary.byteOffset, dictionary.byteLength)
  if (dictionary.length < bytesMin || view.getUint32(0, true) !== magic)
    throw new RangeError('the bytes are not a zstd dictionary with an id')
  return view.getUint32(4, true)
}
