import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { decode } from '@atcute/cbor'
import { decodeFrame } from '@tributary/protocol'
import { startPlc, startProcess, startScriptedHost } from '@tributary/testkit'
import { WebSocket } from 'ws'
import { FirehoseReader } from './firehose-reader.ts'

test('SIGTERM ends every consumer with 1012 and its cursor, and the process with 0', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-drain-'))
  const relay = await startProcess(new URL('../src/main.ts', import.meta.url).pathname, {
    env: {
      TRIBUTARY_RELAY_PORT: '0',
      TRIBUTARY_RELAY_DATA_DIRECTORY: dataDirectory,
      TRIBUTARY_RELAY_PLC_URL: plc.url,
      TRIBUTARY_RELAY_SOURCES: host.host,
      TRIBUTARY_RELAY_ALLOWED_PRIVATE_HOSTS: host.host,
      TRIBUTARY_RELAY_LOG_LEVEL: 'warn',
    },
  })
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  const count = 80
  account.create('org.impact.collection', { n: 0 }, 'r0')
  await reader.until(() => reader.opsOf(account.did).length === 1)
  for (let n = 1; n < count; n++)
    account.create('org.impact.collection', { n, text: 'x'.repeat(200_000) }, `r${n}`)
  await reader.until(() => reader.opsOf(account.did).length === count)

  const url = `${relay.url.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos`
  const json = new WebSocket(url, ['xrpc.v1.json'])
  const cbor = new WebSocket(url, ['xrpc.v1.cbor'])
  const slow = new WebSocket(`${url}?cursor=0`)
  const slowFrames: ReturnType<typeof decodeFrame>[] = []
  slow.on('message', (data: Buffer) => slowFrames.push(decodeFrame(data)))
  slow.on('open', () => slow.pause())
  await Promise.all([json, cbor, slow].map((socket) => once(socket, 'open')))
  const last = [json, cbor].map(async (socket) => {
    const [message] = (await once(socket, 'message')) as [Buffer]
    return [message, (await once(socket, 'close'))[0] as number] as const // as ws has it
  })
  const slowClosed = once(slow, 'close')
  const stopped = relay.stop()
  slow.resume()

  await reader.until(() => reader.closed !== undefined)
  assert.deepEqual(reader.closed, { code: 1012, reason: 'ServiceRestart' })
  const head = reader.seqs.at(-1)
  const resumesAt = (seq: number | undefined) => new RegExp(`resume with cursor=${seq}$`)
  assert.equal(reader.frames.at(-1)?.body['error'], 'ServiceRestart')
  assert.match(String(reader.frames.at(-1)?.body['message']), resumesAt(head))
  for (const [i, each] of last.entries()) {
    const [message, code] = await each
    const told = (i === 0 ? JSON.parse(message.toString()) : decode(message)) as Record<string, unknown> // an error
    assert.deepEqual([code, told['$type'], told['error']], [1012, 'error', 'ServiceRestart'])
    assert.match(String(told['message']), resumesAt(head))
  }
  // One that is behind is told where it was, not where the relay is.
  assert.equal((await slowClosed)[0], 1012)
  const error = slowFrames.pop()
  assert.match(String(error?.body['message']), resumesAt(Number(slowFrames.at(-1)?.body['seq'])))
  await stopped
  assert.deepEqual(await relay.exited, { code: 0, signal: null })
  rmSync(dataDirectory, { recursive: true })
})
