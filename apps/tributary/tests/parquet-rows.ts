import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { parquetReadObjects } from 'hyparquet'
import { DEFAULT_PARSERS } from 'hyparquet/src/convert.js'

/** The rows of all parts in a directory, as another reader of the format sees them. Times are microseconds. */
export async function parquetRows(directory: string): Promise<Record<string, unknown>[]> {
  const names = (await readdir(directory)).filter((name) => !name.startsWith('_')).toSorted()
  const parts = names.map(async (name) => {
    const bytes = new Uint8Array(await readFile(join(directory, name)))
    return (await parquetReadObjects({
      file: bytes.buffer,
      compressors: { ZSTD: (input) => new Uint8Array(zstdDecompressSync(input)) },
      parsers: { ...DEFAULT_PARSERS, timestampFromMicroseconds: (micros) => micros },
    })) as Record<string, unknown>[] // rows by name, since no other form is asked for
  })
  return (await Promise.all(parts)).flat()
}
