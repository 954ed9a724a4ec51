import { createWriteStream, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Network } from '@tributary/testkit'
import type { ServiceName } from '../service-entry.ts'
import { DataDirectory } from '../up/data-directory.ts'
import { renderLine } from '../up/log-line.ts'
import { planServices } from '../up/service-plan.ts'
import { Supervisor } from '../up/supervisor.ts'
import type { Testkit } from './testkit.ts'

/** The DID that callers of the demo's feed name in their tokens. */
const demoFeedDid = 'did:web:feed.demo.test'

const troublesMax = 20

/** A service did not get ready. The message says which, and what it said. */
export class ServiceStartError extends Error {
  override readonly name = 'ServiceStartError'
}

/** The four services on free ports and in a temporary folder, which goes when they are stopped. */
export class LocalServices implements AsyncDisposable {
  readonly directory: string
  /** Where each service answers. */
  readonly urls: Record<ServiceName, string>
  readonly archiveKey: string
  readonly operatorToken: string
  readonly operatorTokenFile: string
  readonly supervisor: Supervisor
  /** The last lines of the log that are warnings or worse. */
  readonly troubles: string[] = []
  readonly #data: DataDirectory
  readonly #log: ReturnType<typeof createWriteStream>

  private constructor(
    network: Network,
    ports: Record<`${ServiceName}Port`, number>,
    options: { logLevel: 'info' | 'debug' | 'trace' | 'warn' | 'error' | 'silent' },
  ) {
    this.directory = mkdtempSync(join(tmpdir(), 'tributary-demo-'))
    this.#data = new DataDirectory(join(this.directory, 'data'))
    this.#log = createWriteStream(this.logFile)
    const privateUrls = [network.plcUrl, network.labeler.url, ...network.pds.map(({ url }) => url)]
    const plans = planServices(
      {
        ...ports,
        ...options,
        host: '127.0.0.1',
        dataDirectory: this.#data.path,
        plcUrl: network.plcUrl,
        sources: network.pds.map(({ host }) => host),
        labelers: [network.labeler.did],
        allowedPrivateHosts: privateUrls.map((url) => new URL(url).host),
        dev: false,
        trustedProxies: [],
        handleHosts: network.pds.map(({ handleDomain, url }) => `${handleDomain.slice(1)}=${url}`),
        feedServiceDid: demoFeedDid,
        feedRequestsPerMinute: 0,
        databaseUrl: undefined,
      },
      this.#data,
      { given: 'all' },
    )
    this.archiveKey = this.#data.secret('archive-key').value
    const operatorToken = this.#data.secret('operator-token')
    this.operatorToken = operatorToken.value
    this.operatorTokenFile = operatorToken.file
    this.urls = Object.fromEntries(plans.map(({ name, url }) => [name, url])) as typeof this.urls // one plan for each name
    this.supervisor = new Supervisor({
      services: plans,
      onLine: (name, line) => this.#keepLine(renderLine(name, line, 'json')),
      onState: (name, state) => this.#log.write(`${JSON.stringify({ service: name, state })}\n`),
    })
  }

  /** Starts all four. Throws ServiceStartError when one of them does not get ready. */
  static async start(
    testkit: Testkit,
    network: Network,
    options: { logLevel: 'info' | 'debug' | 'trace' | 'warn' | 'error' | 'silent' },
  ): Promise<LocalServices> {
    const { freePort } = testkit
    const ports = {
      relayPort: await freePort(),
      streamPort: await freePort(),
      indexPort: await freePort(),
      feedPort: await freePort(),
    }
    const services = new LocalServices(network, ports, options)
    await services.supervisor.start()
    for (const [name, state] of services.supervisor.states) {
      if (state.is === 'ready') continue
      await services[Symbol.asyncDispose]()
      throw new ServiceStartError(`the ${name} did not start${'reason' in state ? `: ${state.reason}` : ''}`)
    }
    return services
  }

  get logFile(): string {
    return join(this.directory, 'services.log')
  }

  #keepLine(line: string): void {
    this.#log.write(`${line}\n`)
    if (!/"level":"(warn|error|fatal)"/.test(line)) return
    this.troubles.push(line)
    if (this.troubles.length > troublesMax) this.troubles.shift()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.supervisor[Symbol.asyncDispose]()
    this.#log.end()
    this.#data[Symbol.dispose]()
    rmSync(this.directory, { recursive: true, force: true })
  }
}
