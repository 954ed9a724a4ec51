/**
 * A host (or several) that replays a recorded load, and the PLC directory of its accounts, in a child
 * process: `serveLoad` starts it with its settings as JSON in the first argument. It must cost little
 * beside the program under test, so a batch of events goes from the file to the socket as it is.
 */
import { answerRequests, reportReady } from './child-requests.ts'
import { Load } from './load-file.ts'
import { LoadReplay } from './load-replay.ts'
import type { PlayOptions } from './load-replay.ts'
import { LoadSource } from './load-source.ts'

/** Settings of the child. */
export interface LoadHostSettings {
  file: string
  /** Where each host listens, and the name that it goes by. */
  sources: { address: string; port: number; host: string }[]
  /** How long DID documents are held back. */
  directoryDelayMs: number
}

const settings = JSON.parse(process.argv[2] ?? '') as LoadHostSettings // reason: written by serveLoad, from this type.
const load = new Load(settings.file)
const replay = new LoadReplay(load)
const { directoryDelayMs } = settings
const hosts = settings.sources.map(({ host }) => host)
const sources = settings.sources.map((_, index) => new LoadSource(replay, { hosts, index, directoryDelayMs }))
for (const [index, { address, port }] of settings.sources.entries())
  await sources[index]?.listen(address, port)

answerRequests({
  play: (options: PlayOptions) => replay.play(options),
  sendTimes: () => replay.sendTimesMs,
  position: () => replay.head,
})
reportReady(`http://${hosts[0]}`, () => process.exit(0))
