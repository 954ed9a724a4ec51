/**
 * A real Chromium without a screen, which shows one page. It comes from an npm package that carries the program and the
 * libraries it needs, for Linux on x86-64. Elsewhere it is the system's.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createReadStream, createWriteStream, existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync, createBrotliDecompress } from 'node:zlib'
import { eventually, inTime } from './eventually.ts'

const flags = [
  '--headless',
  '--no-sandbox',
  '--no-zygote',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--no-first-run',
  '--remote-debugging-port=0',
]

interface Program {
  path: string
  env: NodeJS.ProcessEnv
}

/** Answers of the page, by the number of the question. */
interface Answer {
  id: number
  result: { result: { value: unknown }; exceptionDetails?: { exception?: { description: string } } }
}

export class Browser implements AsyncDisposable {
  readonly #process: ChildProcess
  readonly #profile: string
  readonly #url: string
  #said = ''

  private constructor(program: Program, profile: string, url: string) {
    this.#profile = profile
    this.#url = url
    this.#process = spawn(program.path, [...flags, `--user-data-dir=${profile}`, url], {
      env: program.env,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#said += text))
    process.once('exit', () => this.#process.kill('SIGKILL'))
  }

  /** Shows a page. Undefined on a machine for which there is no Chromium. */
  static async open(url: string): Promise<Browser | undefined> {
    const program = await findProgram()
    return program && new Browser(program, await mkdtemp(join(tmpdir(), 'chromium-')), url)
  }

  /** What an expression gives on the loaded page as soon as that is something, as JSON. @throws what it throws, as text. */
  async until(expression: string): Promise<unknown> {
    const socket = new WebSocket(await this.#pageSocket())
    await inTime(new Promise((resolve) => socket.addEventListener('open', resolve, { once: true })))
    const isLoaded = `location.href.startsWith('${this.#url}') && document.readyState === 'complete'`
    let value: unknown
    const look = async (): Promise<boolean> => {
      value = await this.#ask(socket, `${isLoaded} && (${expression})`)
      return Boolean(value)
    }
    await eventually(look, () => this.#said)
    socket.close()
    return value
  }

  async #ask(socket: WebSocket, expression: string): Promise<unknown> {
    const params = { expression, awaitPromise: true, returnByValue: true }
    const answered = new Promise<Answer>((resolve) =>
      socket.addEventListener('message', ({ data }) => resolve(JSON.parse(String(data)) as Answer), {
        once: true,
      }),
    )
    socket.send(JSON.stringify({ id: 1, method: 'Runtime.evaluate', params }))
    const { result } = await answered
    const { exceptionDetails } = result
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? 'the page threw')
    return result.result.value
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#process.once('close', resolve))
    this.#process.kill('SIGKILL')
    await closed
    await rm(this.#profile, { recursive: true, force: true })
  }

  /** Where the page answers questions, as Chromium's own protocol for debuggers has it. */
  async #pageSocket(): Promise<string> {
    let socket = ''
    const look = async (): Promise<boolean> => {
      const [, port] = /DevTools listening on ws:\/\/127\.0\.0\.1:(\d+)/.exec(this.#said) ?? []
      if (port === undefined) return false
      const pages = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as Page[] // as it is documented
      socket = pages.find(({ url }) => url.startsWith(this.#url))?.webSocketDebuggerUrl ?? ''
      return socket !== ''
    }
    await eventually(look, () => this.#said)
    return socket
  }
}

interface Page {
  url: string
  webSocketDebuggerUrl: string
}

async function findProgram(): Promise<Program | undefined> {
  if (process.platform === 'linux' && process.arch === 'x64') return await unpacked()
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    try {
      return { path: execFileSync('which', [name], { encoding: 'utf8' }).trim(), env: process.env }
    } catch {
      // Not this one.
    }
  }
  return undefined
}

/** The program of the package. It is unpacked once, beside what other runs keep. */
async function unpacked(): Promise<Program> {
  const home = join(dirname(fileURLToPath(import.meta.resolve('@sparticuz/chromium'))), '..')
  const bin = join(home, 'bin')
  const { version } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as { version: string } // npm's
  const cache = join(import.meta.dirname, '../../../.cache')
  const directory = join(cache, `chromium-${version}`)
  if (!existsSync(directory)) {
    await mkdir(cache, { recursive: true })
    const fresh = await mkdtemp(join(cache, 'unpacking-'))
    await pipeline(
      createReadStream(join(bin, 'chromium.br')),
      createBrotliDecompress(),
      createWriteStream(join(fresh, 'chromium'), { mode: 0o755 }),
    )
    const libraries = brotliDecompressSync(readFileSync(join(bin, 'al2023.tar.br')))
    execFileSync('tar', ['-x', '-C', fresh], { input: libraries })
    try {
      await rename(fresh, directory)
    } catch (error) {
      await rm(fresh, { recursive: true })
      // Unless another run was faster.
      if (!existsSync(directory)) throw error
    }
  }
  const env = { ...process.env, LD_LIBRARY_PATH: join(directory, 'lib') }
  return { path: join(directory, 'chromium'), env }
}
