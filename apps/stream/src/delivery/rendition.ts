import { frameMessage } from '@tributary/fanout'
import type { EventKind } from '@tributary/protocol'
import type { RowKind } from '@tributary/segment'
import type { DictionaryEncoder } from '@tributary/zstd-dictionary'
import type { FrameRun } from './frame-run.ts'

/** How messages are written for a subscriber: made of our own messages, which every run has. */
export interface Rendition {
  readonly name: string
  /** Whether rows of a kind have a message. Default: all have. */
  readonly shows?: (kind: RowKind) => boolean
  /** @param own a whole frame of ours. Empty for a row that cannot be shown. Empty frames are not sent. */
  frame(own: Uint8Array): Uint8Array
  /** Bytes of the message before it is compressed. 0 for a row that cannot be shown. */
  messageBytes(own: Uint8Array): number
}

/** Messages as they are. */
export const ownRendition: Rendition = {
  name: 'own',
  frame: (own) => own,
  messageBytes: (own) => messageOf(own).length,
}

/** Begins every message of ours that is no error. */
export const ownHead = '{"$type":"message","payload":{"$type":"network.social.stream.subscribeEvents#'
const ownHeadBytes = Buffer.from(ownHead)
const jetstreamHead = Buffer.from(ownHead.replace('network.social.stream', 'network.bsky.jetstream'))

/** As Jetstream v2 writes them: the name of the method is another one. Errors name no method. */
export const jetstreamRendition: Rendition = {
  name: 'jetstream',
  frame: (own) => {
    const message = messageOf(own)
    return namesMethod(message) ? frameMessage('text', jetstreamHead, message.subarray(ownHead.length)) : own
  },
  messageBytes: (own) => {
    const message = messageOf(own)
    return message.length + (namesMethod(message) ? jetstreamHead.length - ownHead.length : 0)
  },
}

/** Whether a message of ours is no error. */
export function namesMethod(message: Uint8Array): boolean {
  return message.length > ownHead.length && ownHeadBytes.compare(message, 0, ownHead.length) === 0
}

/** Messages of another rendition as binary ones, each of them one zstd frame. */
export function compressedRendition(base: Rendition, { dictionaryId, encode }: DictionaryEncoder): Rendition {
  return {
    name: `${base.name} with dictionary ${dictionaryId}`,
    ...(base.shows && { shows: base.shows }),
    frame: (own) => {
      const plain = base.frame(own)
      return plain.length === 0 ? plain : frameMessage('binary', encode(messageOf(plain)))
    },
    messageBytes: (own) => base.messageBytes(own),
  }
}

/** The message in a frame that was not masked. */
export function messageOf(frame: Uint8Array): Uint8Array {
  const short = frame[1] ?? 0
  return frame.subarray(short < 126 ? 2 : short === 126 ? 4 : 10)
}

/** Runs as they were written already, for as long as somebody has the run. */
const written = new Map<Rendition, WeakMap<FrameRun, FrameRun>>()

/** A run with its messages written in another way, each once and when it is first wanted. */
export function renderedAs(run: FrameRun, rendition: Rendition): FrameRun {
  if (rendition === ownRendition) return run
  let runs = written.get(rendition)
  if (!runs) written.set(rendition, (runs = new WeakMap()))
  let rendered = runs.get(run)
  if (!rendered) runs.set(run, (rendered = new RenderedRun(run, rendition)))
  return rendered
}

const nothing = new Uint8Array(0)
/** What a message of its own takes beside its bytes, about. */
const bytesPerFrame = 100

class RenderedRun implements FrameRun {
  readonly #run: FrameRun
  readonly #rendition: Rendition
  readonly #frames: (Uint8Array | undefined)[]
  readonly #messageBytes: number[] = []
  #made = 0

  constructor(run: FrameRun, rendition: Rendition) {
    this.#run = run
    this.#rendition = rendition
    this.#frames = Array.from({ length: run.count })
  }

  get count(): number {
    return this.#run.count
  }

  get lastSeq(): number {
    return this.#run.lastSeq
  }

  seqAt(i: number): number {
    return this.#run.seqAt(i)
  }

  kindAt(i: number): EventKind {
    return this.#run.kindAt(i)
  }

  rowKindAt(i: number): RowKind {
    return this.#run.rowKindAt(i)
  }

  didAt(i: number): string {
    return this.#run.didAt(i)
  }

  collectionAt(i: number): string {
    return this.#run.collectionAt(i)
  }

  frameAt(i: number): Uint8Array {
    return (this.#frames[i] ??= this.#frame(i))
  }

  messageBytesAt(i: number): number {
    return (this.#messageBytes[i] ??= this.#rendition.messageBytes(this.#run.frameAt(i)))
  }

  firstAfter(seq: number): number {
    return this.#run.firstAfter(seq)
  }

  get made(): number {
    return this.#made + this.#run.made
  }

  keep(bytes: number): void {
    this.#run.keep(bytes)
  }

  #frame(i: number): Uint8Array {
    const isShown = this.#rendition.shows?.(this.#run.rowKindAt(i)) ?? true
    if (!isShown) return nothing
    this.#made++
    const frame = this.#rendition.frame(this.#run.frameAt(i))
    this.keep(frame.length + bytesPerFrame)
    return frame
  }
}
