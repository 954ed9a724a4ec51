import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startTestStream } from './start-test-stream.ts'

test('a stream whose port is taken gives everything back, and starts when the port is free', async () => {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'stream-'))
  const other = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => other.once('listening', resolve))
  const { port } = other.address() as AddressInfo // it listens on TCP
  const settings = { relayUrl: 'ws://127.0.0.1:1', dataDirectory, port }
  try {
    await assert.rejects(startTestStream(settings), { code: 'EADDRINUSE' })
    await new Promise((resolve) => other.close(resolve))
    await using stream = await startTestStream(settings)
    assert.equal((await fetch(`${stream.url}/_health`)).status, 200)
  } finally {
    other.close()
    rmSync(dataDirectory, { recursive: true })
  }
})
