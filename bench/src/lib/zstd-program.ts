/** The program `zstd` on the blocks of an archive, which is a bound for whatever reads or writes them on one core. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSegment } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import type { Bench } from './bench.ts'

/** Seconds that `zstd -d` takes for all blocks of a data directory. */
export async function decompressionSeconds(bench: Bench, directory: string): Promise<number> {
  return await zstdSeconds(await writeBlocks(bench, directory, 'frames'), ['-d'])
}

/** Seconds that `zstd` takes on one core to compress all blocks of a data directory, as a stream compresses them. */
export async function compressionSeconds(bench: Bench, directory: string): Promise<number> {
  return await zstdSeconds(await writeBlocks(bench, directory, 'bodies'), ['-3', '--single-thread'])
}

/** One file of all sealed blocks, as they are stored or as they are once they are decompressed. */
async function writeBlocks(bench: Bench, directory: string, what: 'frames' | 'bodies'): Promise<string> {
  const file = join(bench.newDirectory(what), 'blocks')
  const out = createWriteStream(file)
  const segments = join(directory, 'segments')
  for (const name of readdirSync(segments).toSorted()) {
    const bytes = readFileSync(join(segments, name))
    const { blocks } = parseSegment(bytes, nodeDecompress)
    for (const { offset, compressedSize, uncompressedSize } of blocks) {
      const frame = bytes.subarray(offset + 8, offset + 8 + compressedSize)
      if (!out.write(what === 'frames' ? frame : nodeDecompress(frame, uncompressedSize)))
        await once(out, 'drain')
    }
  }
  out.end()
  await once(out, 'close')
  return file
}

async function zstdSeconds(file: string, options: readonly string[]): Promise<number> {
  const startMs = performance.now()
  const child = spawn('zstd', [...options, '-q', '-c', file], { stdio: ['ignore', 'ignore', 'inherit'] })
  const [code] = (await once(child, 'exit')) as [number | null] // as the event is documented
  if (code !== 0) throw new Error('zstd could not be run')
  return (performance.now() - startMs) / 1000
}
