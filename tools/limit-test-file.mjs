// Preloaded into every test file by test.ts: a file that does not end in time says what holds it, and fails.
import { isMainThread } from 'node:worker_threads'

const fileTimeoutMs = 600_000

if (isMainThread) {
  setTimeout(() => {
    console.error(
      `${process.argv[1]} did not end in ${fileTimeoutMs / 1000} s; open:`,
      process.getActiveResourcesInfo(),
    )
    process.exit(1)
  }, fileTimeoutMs).unref()
}
