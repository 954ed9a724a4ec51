import { startProcess, type ServiceProcess } from '@tributary/testkit'

/** How the directory is: by default well. */
export interface Weather {
  /** Every answer waits for so long. */
  delayMs?: number
  /** Every answer has this status. */
  status?: number
  /** Connections are cut, and new ones get no answer. */
  isAway?: boolean
}

/** The PLC directory of a campaign, which runs in a process of its own. */
export class Directory implements AsyncDisposable {
  readonly #process: ServiceProcess
  /** Where documents are read: through the weather. */
  readonly url: string
  /** Where honest accounts register, whatever the weather. */
  readonly registryUrl: string

  private constructor(process: ServiceProcess, registryUrl: string) {
    this.#process = process
    this.url = process.url
    this.registryUrl = registryUrl
  }

  static async start(): Promise<Directory> {
    const process = await startProcess(new URL('./directory-main.ts', import.meta.url).pathname)
    return new Directory(process, await process.request<string>('registryUrl'))
  }

  async setWeather(weather: Weather): Promise<void> {
    await this.#process.request('weather', weather)
  }

  cpuSeconds(): number {
    return this.#process.cpuSeconds()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.stop()
  }
}
