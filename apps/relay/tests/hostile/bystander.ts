import { startProcess, type ServiceProcess } from '@tributary/testkit'

/** What the machine takes from a process that does next to nothing. */
export interface MachineFigures {
  /** The longest time for which it did not run though it had something to do. */
  turnMs: number
  /** How long writes of 4 kB took from the moment at which they were due, one each 50 ms, shortest first. */
  syncsMs: Float64Array
}

const entry = new URL('./bystander-main.ts', import.meta.url).pathname

/** A process beside the services, on the same disk, by which it is told what the machine is like. */
export class Bystander implements AsyncDisposable {
  readonly #process: ServiceProcess

  private constructor(process: ServiceProcess) {
    this.#process = process
  }

  /** @param file that it writes again and again. */
  static async start(file: string): Promise<Bystander> {
    return new Bystander(await startProcess(entry, { args: [file] }))
  }

  /** Since the last call. */
  async takeFigures(): Promise<MachineFigures> {
    return await this.#process.request<MachineFigures>('figures')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.stop()
  }
}
