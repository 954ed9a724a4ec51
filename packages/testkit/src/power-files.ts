import fs from 'node:fs'
import type { PowerDisk } from './power-disk.ts'

/** An open file or directory of a `PowerDisk`. */
class PowerHandle {
  readonly #disk: PowerDisk
  readonly #fd: number

  constructor(disk: PowerDisk, fd: number) {
    this.#disk = disk
    this.#fd = fd
  }

  async write(
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ bytesWritten: number }> {
    const part = Buffer.from(bytes.buffer, bytes.byteOffset + offset, length)
    return await new Promise((resolve, reject) =>
      this.#disk.writev(this.#fd, [part], position, (error, bytesWritten) =>
        error ? reject(error) : resolve({ bytesWritten }),
      ),
    )
  }

  async read(
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ bytesRead: number }> {
    return await this.#disk.read(this.#fd, bytes, offset, length, position)
  }

  async stat(): Promise<fs.Stats> {
    return fs.fstatSync(this.#fd)
  }

  async truncate(length: number): Promise<void> {
    this.#disk.ftruncateSync(this.#fd, length)
  }

  async utimes(accessed: Date, modified: Date): Promise<void> {
    fs.futimesSync(this.#fd, accessed, modified)
  }

  async sync(): Promise<void> {
    await new Promise<void>((resolve, reject) =>
      this.#disk.fdatasync(this.#fd, (error) => (error ? reject(error) : resolve())),
    )
  }

  async datasync(): Promise<void> {
    await this.sync()
  }

  async close(): Promise<void> {
    this.#disk.closeSync(this.#fd)
  }
}

/** A `PowerDisk` for programs that call it as they call `node:fs/promises`. */
export class PowerFiles {
  readonly #disk: PowerDisk

  constructor(disk: PowerDisk) {
    this.#disk = disk
  }

  async open(path: string, flags: string): Promise<PowerHandle> {
    return new PowerHandle(this.#disk, this.#disk.openSync(path, flags))
  }

  async rename(from: string, to: string): Promise<void> {
    this.#disk.renameSync(from, to)
  }

  async rm(path: string): Promise<void> {
    this.#disk.rmSync(path)
  }

  async mkdir(path: string, options: { recursive: true }): Promise<string | undefined> {
    return this.#disk.mkdirSync(path, options)
  }
}
