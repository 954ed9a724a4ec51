/**
 * The words of the protocol: identifiers, limits, frames, records and events.
 * Imports nothing of ours and nothing from Node, so that every part, the browser client included, can share it.
 */
export * from './collections.ts'
export * from './feed-kinds.ts'
export * from './filter.ts'
export * from './frame.ts'
export * from './frame-v1.ts'
export * from './json-bytes.ts'
export * from './limits.ts'
export * from './record-json.ts'
export * from './record-object.ts'
export * from './stackless-error.ts'
export * from './stream-events.ts'
export * from './syntax.ts'
