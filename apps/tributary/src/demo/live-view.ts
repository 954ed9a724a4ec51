/** The part of the screen that renews itself, or, where there is no screen, a line now and then. */
import type { WriteStream } from 'node:tty'

const drawEveryMs = 500
const lineEveryMs = 5000

export interface LiveViewOptions {
  output: WriteStream
  /** Everything there is to see, one string a line. */
  lines: () => string[]
  /** The same in one line. */
  summary: () => string
}

export class LiveView implements Disposable {
  readonly #options: LiveViewOptions
  readonly #timer: NodeJS.Timeout
  #height = 0

  constructor(options: LiveViewOptions) {
    this.#options = options
    const { isTTY } = options.output
    this.#timer = setInterval(() => (isTTY ? this.#draw() : this.#print()), isTTY ? drawEveryMs : lineEveryMs)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #draw(): void {
    const { output, lines } = this.#options
    // A line that wraps would make the cursor go up too little, and a block higher than the screen too far.
    const drawn = lines()
      .slice(0, Math.max(1, output.rows - 1))
      .map((line) => line.slice(0, output.columns - 1))
    const up = this.#height > 0 ? `\x1b[${this.#height}A\r` : ''
    output.write(`${up}\x1b[J${drawn.join('\n')}\n`)
    this.#height = drawn.length
  }

  #print(): void {
    this.#options.output.write(`${this.#options.summary()}\n`)
  }
}
