/**
 * `tributary demo`: everything for real on one machine. A real PLC directory, three real PDSs and a real labeler run in
 * this process, the four services run as they do under `up`, and records are written through the PDSs. With
 * `--network-only` the services are started by hand. Whatever way it ends, nothing stays behind.
 */
import { exitCodes } from '../exit-codes.ts'
import { stopSignal } from '../stop-signal.ts'
import { runLive } from './live.ts'
import { LocalServices, ServiceStartError } from './local-services.ts'
import { renderChecks, runStory } from './once.ts'
import type { DemoSettings } from './settings.ts'
import { runNetworkOnly } from './network-only.ts'
import { loadTestkit } from './testkit.ts'

const pdsCount = 3

/**
 * Runs until stopped, or with `once` until the checks are done. Returns the exit code.
 *
 * @param given where each setting was given that was
 */
export async function runDemo(settings: DemoSettings, given: ReadonlyMap<string, string>): Promise<number> {
  const startedAt = performance.now()
  const unread = new AbortController()
  process.stdout.once('error', () => unread.abort())
  const stop = AbortSignal.any([stopSignal(), unread.signal])
  if (settings.once && settings.networkOnly) {
    process.stderr.write('tributary demo: --once checks the services, which --network-only leaves out\n')
    return exitCodes.settings
  }
  const idle = idleSetting(settings, given)
  if (idle !== undefined) {
    process.stderr.write(`tributary demo: ${idle}\n`)
    return exitCodes.settings
  }
  const others = settings.networkOnly ? ' and a labeler' : ', a labeler and four services'
  process.stdout.write(`starting a PLC directory, ${pdsCount} PDSs${others}\n`)
  const testkit = await loadTestkit()
  if (testkit === undefined) {
    process.stderr.write('tributary demo: needs the development dependencies, install them with npm ci\n')
    return 1
  }
  await using network = await testkit.startNetwork({ pds: pdsCount, labeler: true })
  if (stop.aborted) return 0
  if (settings.networkOnly) return await runNetworkOnly(testkit, network, stop)
  try {
    await using services = await LocalServices.start(testkit, network, settings)
    if (!settings.once) return await runLive(testkit, network, services, { ...settings, stop })

    const timeout = AbortSignal.timeout(settings.deadlineSeconds * 1000)
    const checks = await runStory(testkit, network, services, AbortSignal.any([stop, timeout]))
    if (stop.aborted) return 1
    const seconds = (performance.now() - startedAt) / 1000
    process.stdout.write(`${renderChecks(checks, seconds)}\n`)
    if (checks.every(({ difference }) => difference === undefined)) return 0
    process.stderr.write(services.troubles.map((line) => `${line}\n`).join(''))
    return 1
  } catch (error) {
    if (!(error instanceof ServiceStartError)) throw error
    process.stderr.write(`tributary demo: ${error.message}\n`)
    return 1
  }
}

/** Says what was given and would count for nothing. */
function idleSetting(
  { once, networkOnly }: DemoSettings,
  given: ReadonlyMap<string, string>,
): string | undefined {
  const deadline = given.get('deadlineSeconds')
  if (deadline !== undefined && !once) return `${deadline} is for --once: give that too, or leave it out`
  const pace = given.get('writesPerSecond')
  if (pace !== undefined && (once || networkOnly))
    return `${pace} is for the demo without --once and --network-only: leave it out`
  return undefined
}
