import type { IncomingMessage } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FetchError } from './fetch-error.ts'

/** Takes one piece of a body. `enough` ends the request, and nothing more of the body is read. */
export type TakePiece = (piece: Buffer) => 'more' | 'enough' | Promise<'more' | 'enough'>

/** Smaller fragments are put together. Larger ones are as the socket gives them, 64 kB at most. */
const pieceBytesMin = 16_384
/** Fragments that a body may come in: each costs as much as some hundred bytes, and a server may send single bytes. */
const fragmentsMax = { first: 1000, bytesEach: 64 }

/**
 * Reads the body of an answer and gives it away in pieces, each in a turn of the event loop of its own. Reading pauses
 * while a piece is dealt with, so that no more than two pieces are held.
 * @throws FetchError if the body is cut off, too long or too much in pieces; and whatever `take` throws.
 */
export function readBody(response: IncomingMessage, bytesMax: number, take: TakePiece): Promise<void> {
  return new Promise((resolve, reject) => {
    let fragments: Buffer[] = []
    let pending = 0
    let length = 0
    let count = 0
    let taking = Promise.resolve()
    const fail = (error: Error): void => {
      reject(error)
      response.destroy()
    }
    const give = (): 'more' | 'enough' | Promise<'more' | 'enough'> => {
      const [first = Buffer.alloc(0)] = fragments
      const piece = fragments.length === 1 ? first : Buffer.concat(fragments)
      fragments = []
      pending = 0
      return take(piece)
    }
    const giveInTurn = async (): Promise<void> => {
      response.pause()
      if ((await give()) === 'enough') {
        resolve()
        response.destroy()
        return
      }
      await nextTurn()
      response.resume()
    }
    response.on('data', (fragment: Buffer) => {
      length += fragment.length
      if (length > bytesMax)
        return fail(new FetchError(`the answer has more than ${bytesMax} bytes`, { isTooLarge: true }))
      if (++count > fragmentsMax.first + length / fragmentsMax.bytesEach)
        return fail(new FetchError('the answer comes in too small fragments'))
      fragments.push(fragment)
      pending += fragment.length
      if (pending < pieceBytesMin) return
      taking = giveInTurn()
      taking.catch(fail)
    })
    response.on('end', () => {
      const last = async (): Promise<void> => {
        // The end of an answer may come while a piece of it is dealt with.
        await taking
        if (pending > 0) await give()
      }
      last().then(resolve, reject)
    })
    response.on('error', (cause) => reject(cause instanceof FetchError ? cause : cutOff(cause)))
    response.on('close', () => response.readableEnded || reject(cutOff()))
  })
}

function cutOff(cause?: unknown): FetchError {
  return new FetchError('the answer is cut off', { cause })
}
