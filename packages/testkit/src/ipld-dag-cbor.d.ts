/** The types that `@ipld/dag-cbor` ships are not found through its `exports`. */
declare module '@ipld/dag-cbor' {
  export function decode(bytes: Uint8Array): unknown
  export function encode(value: unknown): Uint8Array
}
