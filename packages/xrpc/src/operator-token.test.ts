import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requireOperatorToken } from './operator-token.ts'
import { startTestServer } from './test-server.ts'

test('methods under the prefix answer the holder of the operator token alone, and nobody stores the answers', async () => {
  await using running = await startTestServer((server) => {
    requireOperatorToken(server, 'test.call.proc', 'right-token')
    server.procedure('test.call.procedure', () => undefined)
    server.query('test.call.query', () => ({ items: [] }))
  })
  const call = async (authorization?: string): Promise<Response> =>
    fetch(`${running.url}/xrpc/test.call.procedure`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
      body: '{"name":"a"}',
    })
  const missing = /^Send the operator token as Authorization: Bearer <token>$/
  const unknown = /^This is not the operator token$/
  for (const [wrong, why] of [
    [undefined, missing],
    ['Bearer wrong-token', unknown],
    ['Bearer right-toke', unknown],
    ['Bearer', missing],
    ['Basic right-token', missing],
    ['', missing],
  ] as const) {
    const refused = await call(wrong)
    assert.equal(refused.status, 401, wrong)
    const { error, message } = (await refused.json()) as { error: string; message: string } // as errors are
    assert.equal(error, 'AuthenticationRequired')
    assert.match(message, why)
    assert.equal(refused.headers.get('www-authenticate'), 'Bearer')
  }
  const answer = await call('Bearer right-token')
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('cache-control'), 'no-store')
  const other = await fetch(`${running.url}/xrpc/test.call.query`)
  assert.deepEqual([other.status, other.headers.get('cache-control')], [200, null])
})
