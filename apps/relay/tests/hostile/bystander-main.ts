/**
 * A process that does nothing. How late its timers are is what the machine takes from every process, so that much is
 * nobody's fault.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { answerRequests, reportReady } from '@tributary/testkit'

const resolution = 10
const loop = monitorEventLoopDelay({ resolution })
loop.enable()
answerRequests({
  /** The longest delay since the last time, in milliseconds. */
  longest: () => {
    const longestMs = Math.max(0, loop.max / 1e6 - resolution)
    loop.reset()
    return longestMs
  },
})
reportReady('', () => process.exit(0))
