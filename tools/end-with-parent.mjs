// Preloaded by run.mjs into the program it starts, and inherited by what that program forks: when the channel to the
// parent closes, because the parent died or wants no more of us, the process ends as if it had been asked to.
import { isMainThread } from 'node:worker_threads'

/** How long the program's own shutdown may take before it is cut off. */
const endGraceMs = 15_000

if (isMainThread && process.channel) {
  process.on('disconnect', () => {
    setTimeout(() => process.exit(1), endGraceMs).unref()
    process.kill(process.pid, 'SIGTERM')
  })
  // Waiting for this alone must not keep a finished program running.
  process.channel.unref()
}
