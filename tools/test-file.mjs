// Preloaded into every test file, and every group of them, by test.ts:
// - a file that does not end in time says what holds it, and fails;
// - an error that nobody catches ends its file at once, which fails it;
// - Node's test runner follows no asynchronous calls. It would do so for every promise of the file, to tell which test an
//   error that nobody catches comes from: a third of the processor time of a test that waits for much.
import hooks from 'node:async_hooks'
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
// Programs that a test forks inherit the preload, and end in their own way.
if (isMainThread && /\.test\.m?[tj]s$/.test(process.argv[1] ?? '')) {
  process.on('uncaughtException', end)
  process.on('unhandledRejection', end)
  await loadUntracked()
}

/** @param {unknown} error */
function end(error) {
  console.error(`${process.argv[1]}: nobody caught`, error)
  process.exit(1)
}

/** Loads the test runner, which keeps this function as it is while it is loaded. Whoever calls it later finds Node's own. */
async function loadUntracked() {
  const { createHook } = hooks
  hooks.createHook = () => createHook({})
  await import('node:test')
  hooks.createHook = createHook
}
