/**
 * A PDS as a child process: started by `startPdsProcess` with its settings as JSON in the first
 * argument, so that a test can kill it. Ends with its parent.
 */
import { launchPds } from './pds-launch.ts'
import type { PdsSettings } from './pds-launch.ts'

const settings = JSON.parse(process.argv[2] ?? '') as PdsSettings // reason: written by startPdsProcess, from the same type.
const pds = await launchPds(settings)

async function stop(): Promise<void> {
  await pds.destroy()
  process.exit(0)
}
process.once('SIGTERM', () => void stop())
process.once('SIGINT', () => void stop())
process.once('disconnect', () => void stop())
process.send?.({ ready: true, url: `http://localhost:${settings.port}` })
