import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { answerOf, exchange, startTestServer } from './test-server.ts'
import { XrpcError } from './xrpc-error.ts'
import type { XrpcServer } from './xrpc-server.ts'

const json = { 'content-type': 'application/json' }
const call = (url: string, init?: RequestInit): ReturnType<typeof answerOf> => answerOf(fetch(url, init))

function methods(server: XrpcServer): void {
  server.query<{ limit: number }>('test.call.query', ({ params }) => ({ items: [String(params.limit)] }))
  server.procedure<object, { name: string }>('test.call.procedure', ({ input, clientAddress }) => {
    if (input.name === 'refused')
      throw new XrpcError(409, 'Taken', 'choose another name', { 'Retry-After': '5' })
    if (input.name === 'address') throw new XrpcError(400, 'Address', clientAddress)
    if (input.name === 'broken') throw new Error('the password is hunter2')
  })
  server.subscription('test.call.subscribe', () => () => undefined)
  server.route('GET', '/_health', () => ({ version: 'x' }))
  server.route('GET', '/metrics', ({ reply }) => reply.type('text/plain').send('up 1'))
}

test('a query answers with JSON that its lexicon allows', async () => {
  await using running = await startTestServer(methods, { serverHeader: 'tributary' })
  const { status, body, headers } = await call(`${running.url}/xrpc/test.call.query?limit=3`)
  assert.deepEqual([status, body], [200, { items: ['3'] }])
  assert.equal(headers.get('server'), 'tributary')
  assert.equal(headers.get('access-control-allow-origin'), null)
})

test('a procedure without output answers with an empty body', async () => {
  await using running = await startTestServer(methods)
  const answer = await call(`${running.url}/xrpc/test.call.procedure`, {
    method: 'POST',
    headers: json,
    body: '{"name":"a"}',
  })
  assert.deepEqual([answer.status, answer.body], [200, ''])
})

test('long bodies of a network are decoded in turns, and short ones at once', async () => {
  const called: string[] = []
  await using running = await startTestServer((server) =>
    server.procedure<object, { name: string }>('test.call.procedure', ({ input }) => {
      called.push(input.name)
    }),
  )
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
  const other = { url: `/x?${'a'.repeat(20_000)}` } as IncomingMessage // all that is looked at
  const turn = running.server.decode(other, '127.0.0.1', () => isOver)
  const post = (name: string, spaces: number): ReturnType<typeof answerOf> =>
    call(`${running.url}/xrpc/test.call.procedure`, {
      method: 'POST',
      headers: json,
      body: `{"name":"${name}"${' '.repeat(spaces)}}`,
    })
  const long = post('long', 20_000)
  for (let n = 0; n < 5; n++) assert.equal((await post('short', 0)).status, 200)
  assert.deepEqual(called, ['short', 'short', 'short', 'short', 'short'])
  end()
  await turn
  assert.equal((await long).status, 200)
  assert.equal(called.at(-1), 'long')
})

test('input that is no JSON, of another type, or not as the lexicon says, is refused', async () => {
  await using running = await startTestServer(methods)
  const post = async (
    body: string | Uint8Array<ArrayBuffer>,
    headers: Record<string, string> = json,
  ): Promise<unknown> => {
    const answer = await call(`${running.url}/xrpc/test.call.procedure`, { method: 'POST', headers, body })
    assert.equal(answer.status, 400)
    return answer.body
  }
  const refusal = (message: string): object => ({ error: 'InvalidRequest', message })
  const needsType = refusal('the request needs the header Content-Type: application/json')
  assert.deepEqual(await post('{'), refusal('the request body must be JSON'))
  assert.deepEqual(await post(''), refusal('the request body must be JSON'))
  assert.deepEqual(await post(new Uint8Array([0x22, 0xff, 0x22])), refusal('the request body must be JSON'))
  assert.deepEqual(await post('{}', { 'content-type': 'text/plain' }), needsType)
  assert.deepEqual(await post('{}', { 'content-type': '' }), needsType)
  assert.deepEqual(await post('{}'), refusal('Input must have the property "name"'))
  assert.deepEqual(await post('{"name":5}'), refusal('Input/name must be a string'))
  assert.deepEqual(await post('[]'), refusal('Input must be an object'))
})

test('fields of an input that its lexicon does not know are not looked at, whatever they look like', async () => {
  await using running = await startTestServer(methods)
  const body =
    '{"name":"a","more":[{"$type":"blob"},{"cid":"none","mimeType":"text/plain"},{"$link":"none"}]}'
  const { status } = await call(`${running.url}/xrpc/test.call.procedure`, {
    method: 'POST',
    headers: json,
    body,
  })
  assert.equal(status, 200)
})

test('an XrpcError is answered as it is, any other error without detail, which is in the log', async () => {
  await using running = await startTestServer(methods)
  const named = (name: string): RequestInit => ({
    method: 'POST',
    headers: json,
    body: JSON.stringify({ name }),
  })
  const refused = await call(`${running.url}/xrpc/test.call.procedure`, named('refused'))
  assert.deepEqual([refused.status, refused.body], [409, { error: 'Taken', message: 'choose another name' }])
  assert.equal(refused.headers.get('retry-after'), '5')
  const broken = await call(`${running.url}/xrpc/test.call.procedure`, named('broken'))
  assert.equal(broken.status, 500)
  assert.doesNotMatch(JSON.stringify(broken.body), /hunter2/)
  assert.match(running.logged.join(''), /hunter2/)
})

test('output that its lexicon does not allow is never sent', async () => {
  const wrong = [{}, { items: [1] }, { items: [], link: { $link: 'no CID' } }, 'text', null, undefined]
  for (const output of wrong) {
    await using running = await startTestServer((server) => server.query('test.call.query', () => output))
    const { status, body } = await call(`${running.url}/xrpc/test.call.query`)
    assert.equal(status, 500)
    assert.match(JSON.stringify(body), /^\{"error":"InternalServerError"/)
  }
})

test('links and blobs are taken in their JSON form', async () => {
  const link = { $link: 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a' }
  await using running = await startTestServer((server) =>
    server.query('test.call.query', () => ({ items: [], link })),
  )
  assert.deepEqual((await call(`${running.url}/xrpc/test.call.query`)).body, { items: [], link })
})

test('a handler may take the answer over', async () => {
  await using running = await startTestServer((server) => {
    server.query('test.call.query', ({ reply }) =>
      reply.type('application/octet-stream').send(Buffer.from('bytes')),
    )
  })
  assert.equal((await call(`${running.url}/xrpc/test.call.query`)).body, 'bytes')
})

test('unknown paths, methods and verbs each have their answer', async () => {
  await using running = await startTestServer(methods)
  const errorAt = async (path: string, method: string): Promise<unknown[]> => {
    const { status, body, headers } = await call(running.url + path, {
      method,
      ...(method === 'POST' ? { body: 'x' } : {}),
    })
    return [
      status,
      method === 'HEAD' ? '' : /"error":"(\w+)"/.exec(JSON.stringify(body))?.[1],
      headers.get('allow'),
    ]
  }
  assert.deepEqual(await errorAt('/xrpc/test.call.other', 'GET'), [501, 'MethodNotImplemented', null])
  assert.deepEqual(await errorAt('/xrpc/test.call.other', 'POST'), [501, 'MethodNotImplemented', null])
  assert.deepEqual(await errorAt('/xrpc/', 'GET'), [501, 'MethodNotImplemented', null])
  assert.deepEqual(await errorAt('/nothing', 'GET'), [404, 'NotFound', null])
  assert.deepEqual(await errorAt('/xrpc/test.call.query', 'POST'), [405, 'MethodNotAllowed', 'GET'])
  assert.deepEqual(await errorAt('/xrpc/test.call.query', 'HEAD'), [405, '', 'GET'])
  assert.deepEqual(await errorAt('/xrpc/test.call.procedure', 'GET'), [405, 'MethodNotAllowed', 'POST'])
  assert.deepEqual(await errorAt('/_health', 'DELETE'), [405, 'MethodNotAllowed', 'GET'])
  assert.deepEqual(await errorAt('/_health', 'OPTIONS'), [405, 'MethodNotAllowed', 'GET'])
  assert.deepEqual(await errorAt('/xrpc/test.call.subscribe', 'GET'), [426, 'UpgradeRequired', null])
  assert.deepEqual(await errorAt('/%zz', 'GET'), [400, 'InvalidRequest', null])
})

test('a service may name 405, 413 and 500 as its contract does', async () => {
  const errorNames = {
    methodNotAllowed: 'InvalidRequest',
    tooLarge: 'InvalidRequest',
    internal: 'InternalError',
  }
  await using running = await startTestServer(methods, { errorNames, bodyBytesMax: 100 })
  const url = `${running.url}/xrpc/test.call.procedure`
  assert.match(JSON.stringify(await call(url)), /405.*InvalidRequest/)
  const large = await call(url, { method: 'POST', headers: json, body: 'x'.repeat(101) })
  assert.match(JSON.stringify(large), /413.*InvalidRequest/)
  const broken = await call(url, { method: 'POST', headers: json, body: '{"name":"broken"}' })
  assert.match(JSON.stringify(broken), /500.*InternalError/)
})

test('a body over the limit is refused while it arrives, and the connection ends', async () => {
  await using running = await startTestServer(methods, { bodyBytesMax: 100 })
  const head = 'POST /xrpc/test.call.procedure HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'
  const announced = await exchange(running.port, `${head}Content-Length: 101\r\n\r\n`)
  assert.match(announced, /^HTTP\/1\.1 413 [^]*"TooLarge"/)
  const counted = await exchange(
    running.port,
    `${head}Transfer-Encoding: chunked\r\n\r\n65\r\n${'x'.repeat(101)}\r\n`,
  )
  assert.match(counted, /^HTTP\/1\.1 413 [^]*"TooLarge"/)
})

// By itself the server would wait for 30 s, which is more than this test may take.
test('what is no HTTP, too long or too slow is answered and closed', { timeout: 20_000 }, async () => {
  await using running = await startTestServer(methods, { headerBytesMax: 1_000, requestTimeoutMs: 100 })
  assert.match(await exchange(running.port, 'hello\r\n\r\n'), /^HTTP\/1\.1 400 [^]*"InvalidRequest"/)
  const long = `GET / HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(2_000)}\r\n\r\n`
  assert.match(await exchange(running.port, long), /^HTTP\/1\.1 431 [^]*"InvalidRequest"/)
  const late = /^HTTP\/1\.1 408 [^]*"InvalidRequest"/
  assert.match(await exchange(running.port, 'GET / HTTP/1.1\r\nHost'), late)
  const bodyless = 'POST /xrpc/test.call.procedure HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{'
  assert.match(await exchange(running.port, bodyless), late)
})

test('the forwarded address counts only behind a trusted proxy', async () => {
  const init = {
    method: 'POST',
    headers: { ...json, 'x-forwarded-for': '203.0.113.9' },
    body: '{"name":"address"}',
  }
  await using open = await startTestServer(methods)
  assert.match(JSON.stringify(await call(`${open.url}/xrpc/test.call.procedure`, init)), /127\.0\.0\.1/)
  await using behind = await startTestServer(methods, { trustedProxies: ['127.0.0.0/8'] })
  assert.match(JSON.stringify(await call(`${behind.url}/xrpc/test.call.procedure`, init)), /203\.0\.113\.9/)
})

test('with CORS, answers and errors under /xrpc/ are open to every origin, and nothing else is', async () => {
  await using running = await startTestServer(methods, { cors: { exposeHeaders: ['ETag'] } })
  for (const path of ['/xrpc/test.call.query', '/xrpc/test.call.query?limit=0', '/xrpc/test.call.other']) {
    const { headers } = await call(running.url + path)
    assert.equal(headers.get('access-control-allow-origin'), '*')
    assert.equal(headers.get('access-control-expose-headers'), 'ETag')
  }
  const health = await call(`${running.url}/_health`)
  assert.equal(health.headers.get('access-control-allow-origin'), null)
})

test('a preflight is answered for the method’s own verb and headers only', async () => {
  await using running = await startTestServer(methods, { cors: true })
  const preflight = (method?: string, headers?: string): ReturnType<typeof answerOf> =>
    call(`${running.url}/xrpc/test.call.procedure`, {
      method: 'OPTIONS',
      headers: {
        ...(method === undefined ? {} : { 'access-control-request-method': method }),
        ...(headers === undefined ? {} : { 'access-control-request-headers': headers }),
      },
    })
  const allowed = await preflight('POST', 'Content-Type, authorization')
  assert.equal(allowed.status, 204)
  assert.equal(allowed.headers.get('access-control-allow-methods'), 'POST')
  assert.equal(allowed.headers.get('access-control-max-age'), '600')
  assert.equal((await preflight()).status, 400)
  assert.equal((await preflight('GET')).status, 400)
  assert.equal((await preflight('POST', 'x-other')).status, 400)
  // So many names are not looked through, though each is accepted.
  assert.equal((await preflight('POST', 'authorization,'.repeat(300))).status, 400)
})

test('close lets an open request finish and takes no new connection', async () => {
  const started = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const running = await startTestServer((server) =>
    server.route('GET', '/slow', async () => {
      started.resolve()
      await release.promise
      return { done: true }
    }),
  )
  const answer = call(`${running.url}/slow`)
  await started.promise
  const closed = running.server.close()
  release.resolve()
  assert.deepEqual((await answer).body, { done: true })
  await closed
  await assert.rejects(fetch(`${running.url}/slow`))
})
