import type { Generations, IndexWriter } from '@tributary/index-store'
import type { Next } from './rebuild.ts'

/**
 * Opens the present generation. Another index may make the next one the present one before the lock of this one is had.
 * @throws what `openWriter` throws
 */
export async function openPresent(
  generations: Pick<Generations, 'current'>,
  openWriter: (generation: number) => Promise<IndexWriter>,
): Promise<Next> {
  for (;;) {
    const number = await generations.current()
    const writer = await openWriter(number)
    if ((await generations.current()) === number) return { number, writer }
    await writer[Symbol.asyncDispose]()
  }
}
