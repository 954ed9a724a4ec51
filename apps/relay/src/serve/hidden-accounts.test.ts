import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { EventLog } from '@tributary/event-log'
import { recordKinds } from '../pipeline/record-kinds.ts'
import { HiddenAccounts } from './hidden-accounts.ts'

test('what a hidden account wrote is left out, wherever it stands, and nothing else', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'hidden-accounts-'))
  const log = await EventLog.open({ directory })
  t.after(async () => {
    await log.close()
    rmSync(directory, { recursive: true })
  })
  const write = async (account: bigint, kind: keyof typeof recordKinds, text: string): Promise<void> => {
    log.append({ kind: recordKinds[kind], account, source: 1, epoch: 1, upstreamSeq: 0 }, Buffer.from(text))
    await log.flush()
  }
  const hidden = new HiddenAccounts()
  const shown = async (): Promise<string> =>
    (await log.read(0, 1_000_000)).flatMap((slice) => hidden.visible(slice)).join('')
  await write(1n, 'commit', 'a')
  await write(2n, 'commit', 'b')
  await write(1n, 'sync', 'c')
  await write(1n, 'identity', 'd')
  assert.equal(await shown(), 'abcd')
  hidden.set({ row: 1, logId: 1n }, true, log.nextSeq)
  await write(1n, 'account', 'e')
  assert.equal(await shown(), 'bde')
  hidden.set({ row: 1, logId: 1n }, true, log.nextSeq)
  hidden.set({ row: 2, logId: 2n }, true, log.nextSeq)
  assert.equal(await shown(), 'de')
  hidden.set({ row: 1, logId: 1n }, false, log.nextSeq)
  assert.equal(await shown(), 'acde')
  // Another account of the same id is active, was hidden, and is back.
  const twin = { row: 3, logId: 2n }
  for (const isHidden of [false, true, false]) hidden.set(twin, isHidden, log.nextSeq)
  assert.equal(await shown(), 'acde')
  hidden.set({ row: 2, logId: 2n }, false, log.nextSeq)
  assert.equal(await shown(), 'abcde')
})
