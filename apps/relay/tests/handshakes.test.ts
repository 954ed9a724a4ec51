import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestRelay } from './start-test-relay.ts'

const perMinute = 1000

test('a network that begins a thousand handshakes in a minute is told to wait', async () => {
  await using relay = await startTestRelay({
    plcUrl: 'http://127.0.0.1:1',
    sources: [],
    consumersPerAddressMax: 1,
  })
  // A plain request is answered as its handshake would be, and counts as one.
  const ask = async (): Promise<[number, string | null]> => {
    const response = await fetch(`${relay.url}/xrpc/com.atproto.sync.subscribeRepos`)
    await response.arrayBuffer()
    return [response.status, response.headers.get('retry-after')]
  }
  for (let asked = 0; asked < perMinute; asked++) assert.equal((await ask())[0], 426)
  const [status, retryAfter] = await ask()
  assert.equal(status, 429)
  assert.ok(Number(retryAfter) > 0 && Number(retryAfter) <= 60, `${retryAfter}`)
})
