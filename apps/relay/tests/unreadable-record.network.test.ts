import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { encodeFrame } from '@tributary/protocol'
import { EventLog } from '@tributary/event-log'
import { frameMessage } from '@tributary/fanout'
import { readMessage } from '@tributary/repo-verify'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { WebSocket } from 'ws'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-unreadable-'))
const settings = { plcUrl: plc.url, sources: [host.host], dataDirectory }
after(async () => {
  await host.stop()
  await plc.stop()
  rmSync(dataDirectory, { recursive: true, force: true })
})

/** An `#identity` whose keys are out of the canonical order, as an older version let it through. */
function unreadable(seq: number, did: string): Buffer {
  const bytes = Buffer.from(encodeFrame('#identity', { seq, did, time: '2026-01-01T00:00:00.000Z' }))
  const from = bytes.indexOf('cseq')
  const swapped = Buffer.concat([
    bytes.subarray(0, bytes.indexOf('cdid')),
    bytes.subarray(from, bytes.indexOf('dtime')),
    bytes.subarray(bytes.indexOf('cdid'), from),
    bytes.subarray(bytes.indexOf('dtime')),
  ])
  assert.ok(!readMessage(swapped).ok)
  return swapped
}

test('a record that no strict reader takes ends neither the start nor a consumer', async () => {
  const account = await host.createAccount()
  {
    await using relay = await startTestRelay(settings)
    using reader = new FirehoseReader(relay.url, 0)
    account.create('org.impact.collection', { n: 1 })
    await reader.until(() => reader.opsOf(account.did).length === 1)
  }
  const log = await EventLog.open({ directory: join(dataDirectory, 'log') })
  const meta = { kind: 3, account: 1n, source: 1, epoch: 0, upstreamSeq: 0 }
  const seq = log.append(meta, frameMessage('binary', unreadable(log.nextSeq, account.did)))
  await log.close()

  await using relay = await startTestRelay(settings)
  using live = new FirehoseReader(relay.url, seq)
  account.create('org.impact.collection', { n: 2 })
  await live.until(() => live.opsOf(account.did).length === 1)
  const newest = live.seqs.at(-1) ?? 0

  const url = `${relay.url.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos?cursor=0`
  const v0 = new WebSocket(url)
  let records = 0
  v0.on('message', () => records++)
  const v1 = new WebSocket(url, ['xrpc.v1.json'])
  const seqs: number[] = []
  v1.on('message', (data: Buffer) => {
    const { payload } = JSON.parse(data.toString()) as { payload: { seq: number } } // as the framing has it
    seqs.push(payload.seq)
  })
  await eventually(() => seqs.includes(newest) && records > seqs.length)
  v0.terminate()
  v1.terminate()
  assert.ok(!seqs.includes(seq))
  assert.equal(records, seqs.length + 1)
})
