import { dirname } from 'node:path'
import { SegmentError } from './errors.ts'
import type { DiskHandle, SegmentDisk } from './segment-disk.ts'

const chunkBytes = 1024 * 1024

/** Keeps a file open until it is disposed. */
export interface SegmentLease extends Disposable {
  /** Exactly `length` bytes at `offset`. Throws SegmentError when the file ends before, which its header denied. */
  read(offset: number, length: number): Promise<Uint8Array>
}

/**
 * An open segment file that is closed when its last reader is done.
 * A rewrite renames another file over the path; whoever holds a lease goes on reading the bytes it opened.
 */
export class SegmentFile {
  readonly path: string
  readonly #handle: DiskHandle
  #leases = 0
  #closing: PromiseWithResolvers<void> | undefined

  constructor(path: string, handle: DiskHandle) {
    this.path = path
    this.#handle = handle
  }

  /** The handle, for writing and for streaming while a lease is held. */
  get handle(): DiskHandle {
    return this.#handle
  }

  /** A reader, which keeps the file open past close(). Throws SegmentError `closed` once close() was called. */
  lease(): SegmentLease {
    if (this.#closing) throw new SegmentError('closed', `${this.path} is closed`)
    this.#leases++
    let isHeld = true
    return {
      read: (offset, length) => this.#read(offset, length),
      [Symbol.dispose]: () => {
        if (!isHeld) return
        isHeld = false
        this.#leases--
        this.#closeWhenIdle()
      },
    }
  }

  /** Writes all bytes at `offset`; durable only after a sync of the handle. */
  async write(bytes: Uint8Array, offset: number): Promise<void> {
    if (this.#closing) throw new SegmentError('closed', `${this.path} is closed`)
    let done = 0
    while (done < bytes.length) {
      const { bytesWritten } = await this.#handle.write(bytes, done, bytes.length - done, offset + done)
      done += bytesWritten
    }
  }

  /** Refuses new leases and resolves when the file is closed, which waits for the leases that are out. */
  async close(): Promise<void> {
    this.#closing ??= Promise.withResolvers()
    this.#closeWhenIdle()
    return this.#closing.promise
  }

  async #read(offset: number, length: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(length)
    let done = 0
    while (done < length) {
      const { bytesRead } = await this.#handle.read(bytes, done, length - done, offset + done)
      if (bytesRead === 0) {
        throw new SegmentError('bad-header', `${this.path} ends before byte ${offset + length}`)
      }
      done += bytesRead
    }
    return bytes
  }

  #closeWhenIdle(): void {
    if (this.#closing && this.#leases === 0)
      this.#handle.close().then(this.#closing.resolve, this.#closing.reject)
  }
}

/** Makes a created, renamed or removed name in the directory of `path` durable. Windows has no such operation. */
export async function syncDirectoryOf(path: string, disk: SegmentDisk): Promise<void> {
  if (process.platform !== 'win32') await syncFile(dirname(path), disk)
}

/**
 * Writes what stands in a part of a file to the same place. Where a write failed before, the system may have it in memory
 * alone and count it as written, so that a sync without this would not bring it to the disk. Durable after a sync.
 */
export async function writeAgain(file: SegmentFile, from: number, to: number): Promise<void> {
  using reader = file.lease()
  for (let at = from; at < to; at += chunkBytes)
    await file.write(await reader.read(at, Math.min(chunkBytes, to - at)), at)
}

async function syncFile(path: string, disk: SegmentDisk): Promise<void> {
  const file = await disk.open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}
