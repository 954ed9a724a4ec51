import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { endThread } from './end-thread.ts'

/** Notes a message when it has worked on it for a while, and ends as threads of this package do. */
const program = `
  const { parentPort, workerData } = require('node:worker_threads')
  parentPort.on('message', (message) => {
    if (message === 'end') return parentPort.close()
    Atomics.wait(workerData, 1, 0, 50)
    Atomics.add(workerData, 0, 1)
  })
  parentPort.postMessage('ready')`

test('a thread that is ended does first what it was sent', async () => {
  const done = new Int32Array(new SharedArrayBuffer(8))
  const thread = new Worker(program, { eval: true, workerData: done })
  thread.unref()
  await once(thread, 'message')
  for (const message of [1, 2, 3]) thread.postMessage(message)
  const exited = once(thread, 'exit')
  await endThread(thread)
  assert.equal(done[0], 3)
  assert.deepEqual(await exited, [0], 'it was not cut off')
})
