import { mkdir, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

/** The methods of an open file, as Node has them. */
interface FileMethods {
  write: (bytes: Uint8Array, offset: number, length: number, position: number) => Promise<unknown>
  sync: () => Promise<void>
  datasync: () => Promise<void>
  stat: () => Promise<{ ino: number }>
}

interface LastWrite {
  ino: number
  bytes: Buffer
  position: number
}

/** The methods that all open files share. */
export async function fileMethods(): Promise<object> {
  const file = await open(import.meta.filename)
  await file.close()
  return Object.getPrototypeOf(file) as object // of every file that is open
}

/**
 * Plays a power cut before each sync within a directory: only what was synced before is left, once alone and once with
 * the last write, since a disk may write in any order.
 */
export async function cutPowerBeforeEachSync(
  t: TestContext,
  directory: string,
  check: (leftPath: string) => Promise<void>,
): Promise<void> {
  const methods = (await fileMethods()) as FileMethods // as above
  const contents = new Map<number, Buffer>()
  let names = new Map<string, number>()
  let lastWrite: LastWrite | undefined
  let isChecking = false

  const inodes = async (): Promise<Map<string, number>> =>
    new Map(
      await Promise.all(
        (await readdir(directory)).map(
          async (name) => [name, (await stat(join(directory, name))).ino] as const,
        ),
      ),
    )
  const leave = async (written: LastWrite | undefined): Promise<void> => {
    const left = `${directory}-left`
    await rm(left, { recursive: true, force: true })
    await mkdir(left)
    for (const [name, ino] of names) {
      const content = contents.get(ino) ?? Buffer.alloc(0)
      const end = written?.ino === ino ? written.position + written.bytes.length : 0
      const bytes = Buffer.alloc(Math.max(content.length, end))
      content.copy(bytes)
      if (written?.ino === ino) written.bytes.copy(bytes, written.position)
      await writeFile(join(left, name), bytes)
    }
    await check(left)
  }
  const cut = async (): Promise<void> => {
    isChecking = true
    await leave(undefined)
    await leave(lastWrite)
    isChecking = false
  }
  const { write, sync, datasync } = methods
  t.mock.method(methods, 'write', async function (this: FileMethods, ...args: Parameters<typeof write>) {
    const [bytes, offset, length, position] = args
    if (!isChecking) {
      const copy = Buffer.from(bytes.subarray(offset, offset + length))
      lastWrite = { ino: (await this.stat()).ino, bytes: copy, position }
    }
    return write.apply(this, args)
  })
  for (const [name, real] of Object.entries({ sync, datasync }))
    t.mock.method(methods, name as 'sync', async function (this: FileMethods) {
      if (isChecking) return real.call(this)
      await cut()
      await real.call(this)
      const { ino } = await this.stat()
      const now = await inodes()
      const file = [...now].find(([, each]) => each === ino)
      // A sync of the directory is one of its names; only names within it are known here.
      if (file) contents.set(ino, await readFile(join(directory, file[0])))
      else if ((await stat(directory)).ino === ino) names = now
      if (lastWrite?.ino === ino) lastWrite = undefined
    })
}
