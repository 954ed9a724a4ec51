import { type FileHandle, open } from 'node:fs/promises'

const chunkBytes = 1024 * 1024
const sectorBytes = 512

/** All bytes of a file. Zeros stand for the sectors that the disk cannot read. */
export async function readWhole(path: string): Promise<{ bytes: Buffer; unreadable: number }> {
  await using file = await open(path)
  const bytes = Buffer.alloc((await file.stat()).size)
  let unreadable = 0
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const chunk = bytes.subarray(at, at + chunkBytes)
    if (await isRead(file, chunk, at)) continue
    for (let from = 0; from < chunk.length; from += sectorBytes) {
      const sector = chunk.subarray(from, from + sectorBytes)
      if (await isRead(file, sector, at + from)) continue
      sector.fill(0)
      unreadable += sector.length
    }
  }
  return { bytes, unreadable }
}

/** False when the disk cannot read it. */
async function isRead(file: FileHandle, bytes: Buffer, position: number): Promise<boolean> {
  try {
    for (let done = 0; done < bytes.length;) {
      const { bytesRead } = await file.read(bytes, done, bytes.length - done, position + done)
      if (bytesRead === 0) break
      done += bytesRead
    }
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EIO') return false
    throw error
  }
}
