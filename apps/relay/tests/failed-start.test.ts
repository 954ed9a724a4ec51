import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startTestRelay } from './start-test-relay.ts'

test('a relay whose port is taken gives everything back, and starts when the port is free', async () => {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-'))
  const other = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => other.once('listening', resolve))
  const { port } = other.address() as AddressInfo // it listens on TCP
  const settings = { plcUrl: 'http://127.0.0.1:1', sources: [], dataDirectory, port }
  try {
    await assert.rejects(startTestRelay(settings), { code: 'EADDRINUSE' })
    await new Promise((resolve) => other.close(resolve))
    await using relay = await startTestRelay(settings)
    assert.equal((await fetch(`${relay.url}/ready`)).status, 200)
  } finally {
    other.close()
    rmSync(dataDirectory, { recursive: true })
  }
})
