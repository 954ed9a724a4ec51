/**
 * `tributary demo`: everything for real on one machine. A real PLC directory, three real PDSs and a real labeler run in
 * this process, the four services run as they do under `up`, and records are written through the PDSs. Whatever way
 * it ends, nothing stays behind.
 */
import { stopSignal } from '../stop-signal.ts'
import { runLive } from './live.ts'
import { LocalServices } from './local-services.ts'
import { renderChecks, runStory } from './once.ts'
import type { DemoSettings } from './settings.ts'
import { loadTestkit } from './testkit.ts'

const pdsCount = 3

/** Runs until stopped, or with `once` until the checks are done. Returns the exit code. */
export async function runDemo(settings: DemoSettings): Promise<number> {
  const startedAt = performance.now()
  const stop = stopSignal()
  process.stdout.write(`starting a PLC directory, ${pdsCount} PDSs, a labeler and four services\n`)
  const testkit = await loadTestkit()
  if (testkit === undefined) {
    process.stderr.write('tributary demo: needs the development dependencies, install them with npm ci\n')
    return 1
  }
  await using network = await testkit.startNetwork({ pds: pdsCount, labeler: true })
  await using services = await LocalServices.start(testkit, network, settings)
  if (!settings.once) return runLive(testkit, network, services, { ...settings, stop })

  const timeout = AbortSignal.timeout(settings.deadlineSeconds * 1000)
  const checks = await runStory(testkit, network, services, AbortSignal.any([stop, timeout]))
  const seconds = (performance.now() - startedAt) / 1000
  process.stdout.write(`${renderChecks(checks, seconds)}\n`)
  return checks.every(({ difference }) => difference === undefined) ? 0 : 1
}
