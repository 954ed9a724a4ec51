/**
 * The thread that owns the log's disk: checksums, writes, syncs, the lease of sequence numbers and the roll to a new
 * file. One message, one group commit. A thread of its own, so that slow reads and DNS cannot delay a sync.
 *
 * Half a lease before its end the next one is taken, ahead of the write that made it necessary.
 */
import { closeSync, fdatasyncSync, fsyncSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { Block, sealBlock } from './block.ts'
import { createCrc } from './crc.ts'
import { syncDirectory } from './durable-file.ts'
import { writeLease } from './lease.ts'
import { indexName } from './log-files.ts'
import { addToIndex, type FileIndex } from './recover.ts'

export interface WriterData {
  directory: string
  leaseSize: number
  leaseLimit: number
  fileBytesMax: number
  fileAgeMsMax: number
  visible: 'durable' | 'written'
  /** The file to go on with, or none. */
  current: { name: string; index: FileIndex } | undefined
}

export type WriterRequest = { type: 'append'; blocks: Buffer[] } | { type: 'close'; nextSeq: number }

export interface WrittenBlock {
  buffer: Buffer
  file: string
  offset: number
}

export type WriterReply =
  | { type: 'ready' }
  | { type: 'written'; blocks: WrittenBlock[] }
  | { type: 'synced'; syncMs: number; blocks: WrittenBlock[] }
  | { type: 'failed'; message: string }
  | { type: 'closed' }

/** Name of the log file that starts at a seq: sorts by seq. */
export function fileName(firstSeq: number): string {
  return `${String(firstSeq).padStart(16, '0')}.tlog`
}

async function main(port: NonNullable<typeof parentPort>): Promise<void> {
  const data: WriterData = workerData // set by EventLog.open
  const crc = await createCrc()
  let leaseLimit = data.leaseLimit
  let file:
    | { name: string; fd: number; index: FileIndex; openedAtMs: number; syncedBytes: number }
    | undefined
  if (data.current) {
    const { name, index } = data.current
    file = {
      name,
      fd: openSync(join(data.directory, name), 'r+'),
      index,
      openedAtMs: Date.now(),
      syncedBytes: index.bytes,
    }
    fsyncSync(file.fd)
  }

  function reserve(lastSeq: number): void {
    if (lastSeq < leaseLimit - data.leaseSize / 2) return
    leaseLimit = Math.max(leaseLimit, lastSeq + 1) + data.leaseSize
    keepLease(leaseLimit)
  }

  function keepLease(limit: number): void {
    writeLease(data.directory, { limit, synced: file && { file: file.name, bytes: file.syncedBytes } })
  }

  function append(blocks: Buffer[]): void {
    const written: WrittenBlock[] = []
    for (const buffer of blocks) {
      const block = new Block(buffer)
      reserve(block.lastSeq)
      if (
        file &&
        (file.index.bytes + buffer.length > data.fileBytesMax ||
          Date.now() - file.openedAtMs > data.fileAgeMsMax)
      ) {
        fdatasyncSync(file.fd)
        closeSync(file.fd)
        writeFileSync(join(data.directory, indexName(file.name)), JSON.stringify(file.index))
        file = undefined
      }
      if (!file) {
        const name = fileName(block.firstSeq)
        const index: FileIndex = { firstSeq: 0, lastSeq: 0, lastTimeMs: 0, bytes: 0, points: [] }
        file = {
          name,
          fd: openSync(join(data.directory, name), 'wx'),
          index,
          openedAtMs: Date.now(),
          syncedBytes: 0,
        }
        syncDirectory(data.directory)
      }
      sealBlock(buffer, file.syncedBytes, crc)
      for (let at = 0; at < buffer.length;)
        at += writeSync(file.fd, buffer, at, buffer.length - at, file.index.bytes + at)
      written.push({ buffer, file: file.name, offset: file.index.bytes })
      addToIndex(file.index, {
        firstSeq: block.firstSeq,
        lastSeq: block.lastSeq,
        lastTimeMs: block.timeMsAt(block.count - 1),
      })
      file.index.bytes += buffer.length
    }
    if (data.visible === 'written') reply({ type: 'written', blocks: written })
    const start = performance.now()
    if (file) {
      fdatasyncSync(file.fd)
      file.syncedBytes = file.index.bytes
    }
    const syncMs = performance.now() - start
    reply(
      data.visible === 'written'
        ? { type: 'synced', syncMs, blocks: [] }
        : { type: 'synced', syncMs, blocks: written },
    )
  }

  function reply(message: WriterReply): void {
    const blocks = message.type === 'written' || message.type === 'synced' ? message.blocks : []
    port.postMessage(
      message,
      blocks.map(({ buffer }) => buffer.buffer as ArrayBuffer), // blocks are allocated unpooled, never shared
    )
  }

  port.on('message', (request: WriterRequest) => {
    try {
      if (request.type === 'append') {
        // A Buffer arrives as a plain Uint8Array.
        append(request.blocks.map((bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)))
        return
      }
      if (file) closeSync(file.fd)
      keepLease(request.nextSeq)
      reply({ type: 'closed' })
      port.close()
    } catch (error) {
      reply({ type: 'failed', message: error instanceof Error ? error.message : String(error) })
    }
  })
  reply({ type: 'ready' })
}

if (parentPort && (workerData as { logWriter?: boolean } | undefined)?.logWriter) await main(parentPort) // only in the thread
