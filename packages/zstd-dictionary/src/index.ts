/**
 * Compresses small messages with a zstd dictionary, each into a frame of its own, and holds the dictionaries of the live
 * stream. What must hold: a frame is read with a window of 128 KiB and the dictionary that it names; memory is bounded,
 * whatever is compressed; nothing is loaded before somebody makes an encoder.
 */
export { dictionaryId } from './dictionary-id.ts'
export { createDictionaryEncoder, type DictionaryEncoder } from './encoder.ts'
export { eventDictionary, jetstreamV1Dictionary } from './event-dictionary.ts'
