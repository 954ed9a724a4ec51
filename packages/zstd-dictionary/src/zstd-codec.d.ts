/** What we use of a package that has no types. */
declare module 'zstd-codec' {
  /** A digested dictionary in the memory of the codec. */
  export interface CompressionDictionary {
    get(): unknown
    close(): void
  }

  export interface Zstd {
    Simple: new () => {
      /** Null when the codec refuses; throws a text when its memory of 16 MiB is used up. */
      compressUsingDict(content: Uint8Array, dictionary: CompressionDictionary): Uint8Array | null
    }
    Dict: {
      Compression: new (dictionary: Uint8Array, level: number) => CompressionDictionary
    }
  }

  const zstdCodec: { ZstdCodec: { run(whenReady: (zstd: Zstd) => void): void } }
  export default zstdCodec
}
