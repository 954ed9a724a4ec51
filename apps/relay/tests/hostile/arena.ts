/**
 * Everything that a campaign needs, running: the directory, honest hosts with their journals, the hostile process,
 * relay and stream as processes, and a consumer of each that holds what comes against the journals.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort, randomFrom } from '@tributary/testkit'
import { Bystander } from './bystander.ts'
import { Directory } from './directory.ts'
import { FramingWitness } from './framing-witness.ts'
import { HonestHosts } from './honest-hosts.ts'
import { HostileProcess } from './hostile-process.ts'
import { LeavingHost } from './leaving-host.ts'
import { RelayWitness } from './relay-witness.ts'
import { Service } from './service.ts'
import { apiKey, type Victim, type Wish } from './stage.ts'
import { StreamWitness } from './stream-witness.ts'
import type { OnBreach } from './witness.ts'

const relayEntry = new URL('../../src/main.ts', import.meta.url).pathname
const streamEntry = new URL('../../../stream/src/main.ts', import.meta.url).pathname
const honestAddresses = ['127.0.6.1', '127.0.6.2', '127.0.6.3']
const leavingAddress = '127.0.6.9'
const hostileAddresses = ['127.0.7.1', '127.0.7.2', '127.0.7.3', '127.0.7.4']
const accountsPerHost = { honest: 20, hostile: 5 }
const lookAgainMs = 20

/** Events that are named where some are missing. */
const describedMax = 5

/** Events of honest hosts that witnesses have not seen. */
export interface Missing {
  relay: number
  stream: number
  framings: number
}

export interface ArenaOptions {
  seed: number
  /** Where profiles of relay and stream are left. Undefined: they are not profiled. */
  profileDirectory: string | undefined
  onBreach: OnBreach
}

export class Arena implements AsyncDisposable {
  readonly directory: Directory
  readonly honest: HonestHosts
  readonly hostile: HostileProcess
  readonly leaving: LeavingHost
  readonly bystander: Bystander
  readonly relay: Service
  readonly stream: Service
  readonly relayWitness: RelayWitness
  readonly streamWitness: StreamWitness
  readonly framingWitnesses: readonly FramingWitness[]
  readonly #parts: AsyncDisposableStack

  private constructor(parts: Parts, stack: AsyncDisposableStack) {
    this.directory = parts.directory
    this.honest = parts.honest
    this.hostile = parts.hostile
    this.leaving = parts.leaving
    this.bystander = parts.bystander
    this.relay = parts.relay
    this.stream = parts.stream
    this.relayWitness = parts.relayWitness
    this.streamWitness = parts.streamWitness
    this.framingWitnesses = parts.framingWitnesses
    this.#parts = stack
  }

  static async open({ seed, profileDirectory, onBreach }: ArenaOptions): Promise<Arena> {
    await using stack = new AsyncDisposableStack()
    const root = mkdtempSync(join(tmpdir(), 'hostile-'))
    stack.defer(() => rmSync(root, { recursive: true, force: true }))
    const bystander = stack.use(await Bystander.start(join(root, 'bystander')))
    const directory = stack.use(await Directory.start())
    const relayUrl = `http://127.0.0.1:${await freePort()}`
    const streamUrl = `http://127.0.0.1:${await freePort()}`

    const relayWitness = new RelayWitness(relayUrl, onBreach)
    const streamWitness = new StreamWitness(streamUrl, onBreach)
    const framingWitnesses = (['json', 'cbor'] as const).map(
      (framing) => new FramingWitness(relayUrl, framing, onBreach),
    )
    const witnesses = [relayWitness, streamWitness, ...framingWitnesses]
    stack.defer(() => witnesses.forEach((witness) => witness.close()))
    const honest = stack.use(
      await HonestHosts.start({
        registryUrl: directory.registryUrl,
        addresses: honestAddresses,
        accountsPerHost: accountsPerHost.honest,
        random: randomFrom(seed),
        onAccount: (did) => witnesses.forEach(({ journal }) => journal.add(did)),
        onSend: (event) => witnesses.forEach((witness) => witness.expect(event)),
      }),
    )
    const leaving = stack.use(await LeavingHost.start(directory.registryUrl, leavingAddress))
    const services: Partial<Record<'relay' | 'stream', Service>> = {}
    const hostile = stack.use(
      await HostileProcess.start(
        { addresses: hostileAddresses, directoryUrl: directory.url, relayUrl, streamUrl, seed },
        async (wish: Wish) => {
          if ('kill' in wish) await services[wish.kill]?.kill()
          else await directory.setWeather(wish.weather)
        },
      ),
    )
    const hosts = [...honest.hosts.map(({ host }) => host), leaving.host, ...hostile.hosts].join(',')
    const common = { NODE_COMPILE_CACHE: join(root, 'compiled') }
    const relay = stack.use(
      await Service.start({
        name: 'relay',
        entry: relayEntry,
        profileDirectory,
        onBreach,
        env: {
          ...common,
          TRIBUTARY_RELAY_PORT: new URL(relayUrl).port,
          TRIBUTARY_RELAY_DATA_DIRECTORY: join(root, 'relay'),
          TRIBUTARY_RELAY_PLC_URL: directory.url,
          TRIBUTARY_RELAY_SOURCES: hosts,
          TRIBUTARY_RELAY_ALLOWED_PRIVATE_HOSTS: hosts,
          TRIBUTARY_RELAY_ACCOUNT_QUOTA: '100000',
          // Documents that never come are given up, so that what follows is played too.
          TRIBUTARY_RELAY_IDENTITY_WAIT_SECONDS: '30',
          TRIBUTARY_RELAY_LOG_LEVEL: 'warn',
        },
      }),
    )
    const stream = stack.use(
      await Service.start({
        name: 'stream',
        entry: streamEntry,
        profileDirectory,
        onBreach,
        env: {
          ...common,
          TRIBUTARY_STREAM_PORT: new URL(streamUrl).port,
          TRIBUTARY_STREAM_DATA_DIRECTORY: join(root, 'stream'),
          TRIBUTARY_STREAM_RELAY_URL: relayUrl.replace('http', 'ws'),
          TRIBUTARY_STREAM_PLC_URL: directory.url,
          TRIBUTARY_STREAM_ALLOWED_PRIVATE_HOSTS: hosts,
          TRIBUTARY_STREAM_SEGMENT_MEGABYTES_MAX: '1',
          TRIBUTARY_STREAM_API_KEYS: `hostile:${apiKey}`,
          TRIBUTARY_STREAM_LOG_LEVEL: 'warn',
        },
      }),
    )
    Object.assign(services, { relay, stream })
    for (const witness of witnesses) witness.connect()
    const arena = new Arena(
      {
        directory,
        honest,
        hostile,
        leaving,
        bystander,
        relay,
        stream,
        relayWitness,
        streamWitness,
        framingWitnesses,
      },
      stack.move(),
    )
    honest.announceAll()
    await leaving.leave()
    await hostile.prepare(accountsPerHost.hostile)
    return arena
  }

  get victims(): Victim[] {
    return this.honest.hosts.flatMap(({ host, accounts }) =>
      [...accounts.values()].map(({ did, handle }) => ({ did, handle, host })),
    )
  }

  /** Events of honest hosts that a witness has not seen, of those that were sent so long ago. */
  missing(forMs = 0): Missing {
    const nowMs = performance.now()
    return {
      relay: this.relayWitness.missing(nowMs, forMs),
      stream: this.streamWitness.missing(nowMs, forMs),
      framings: this.framingWitnesses.reduce((sum, witness) => sum + witness.missing(nowMs, forMs), 0),
    }
  }

  /** The first events that a witness has not seen, by name. */
  describeMissing(name: keyof Missing): string {
    const witnesses = {
      relay: [this.relayWitness],
      stream: [this.streamWitness],
      framings: this.framingWitnesses,
    }
    const events = witnesses[name].flatMap(({ journal }) => journal.missing(performance.now()))
    const described = events.slice(0, describedMax).map(({ key, did }) => `${key} of ${did}`)
    const { refused } = name === 'stream' ? this.stream : this.relay
    const [first] = events
    const recent = witnesses[name].flatMap((witness) => (first ? witness.recentOf(first.did) : []))
    return `${described.join(', ')}; refused since the last start: ${refused || 'nothing'}; what came of the first account: ${recent.join(', ')}`
  }

  /** Resolves when everything that was sent by now has been seen, or after `ms`. */
  async settle(ms: number): Promise<void> {
    const startMs = performance.now()
    for (;;) {
      const waitedMs = performance.now() - startMs
      const { relay, stream, framings } = this.missing(waitedMs)
      if (waitedMs >= ms || relay + stream + framings === 0) return
      await sleep(lookAgainMs)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync()
  }
}

type Parts = Pick<
  Arena,
  | 'directory'
  | 'honest'
  | 'hostile'
  | 'leaving'
  | 'bystander'
  | 'relay'
  | 'stream'
  | 'relayWitness'
  | 'framingWitnesses'
  | 'streamWitness'
>
