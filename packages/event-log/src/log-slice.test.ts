import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { EventLog } from './index.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }

/** The first byte of each record and its length. */
async function recordsOf(log: EventLog): Promise<[first: number | undefined, length: number][]> {
  const records: [number | undefined, number][] = []
  for await (const slice of log.replay(0))
    for (let row = 0; row < slice.count; row++) {
      const payload = slice.payloadAt(row)
      records.push([payload[0], payload.length])
    }
  return records
}

test('memory of a read from disk is given back at once, and what stands in memory for everybody stays', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'log-slice-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const log = await EventLog.open({ directory, tailBytesMax: 3000 })
  for (let n = 0; n < 20; n++) {
    log.append(meta, Buffer.alloc(500, n))
    await log.flush()
  }
  assert.equal(log.readMemory(0, 1000), undefined)
  const [stored, ...others] = await log.read(0, 2000)
  assert.ok(others.length > 0, 'several blocks in one read')
  const bytes = stored?.bytes
  stored?.free()
  for (const slice of others) slice.free()
  assert.equal(bytes?.length, 0)
  const before = await recordsOf(log)
  for (const slice of log.readMemory(19, 1000) ?? []) slice.free()
  assert.equal((await log.read(19, 1000))[0]?.payloadAt(0)[0], 19)
  assert.deepEqual(await recordsOf(log), before)
  await log.close()
})
