import assert from 'node:assert/strict'
import { cp, mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { backUpLog, EventLog, repairLog } from './index.ts'
import { limitAtStart, limitOfCopy } from './lease.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }

/** Logs under one directory, on a machine whose date a test sets. */
async function machine(t: TestContext, nowMs: number) {
  const root = await mkdtempDisposable(join(tmpdir(), 'lease-'))
  const logs: EventLog[] = []
  t.after(async () => {
    for (const log of logs) await log.close()
    await root.remove()
  })
  const at = (name: string): string => join(root.path, name)
  const clock = { wallMs: () => nowMs, elapsedMs: () => performance.now() }
  return {
    pass: (ms: number): number => (nowMs += ms),
    open: async (name: string): Promise<EventLog> => {
      const log = await EventLog.open({ directory: at(name), clock })
      logs.push(log)
      return log
    },
    backUp: async (name: string, copy: string) => await backUpLog(at(name), at(copy), { clock }),
    copy: (name: string, copy: string): Promise<void> => cp(at(name), at(copy), { recursive: true }),
    repair: async (name: string) => await repairLog(at(name), { how: 'skip' }),
  }
}

async function appended(log: EventLog, count: number): Promise<number[]> {
  const seqs = Array.from({ length: count }, () => log.append(meta, Buffer.from('a record')))
  await log.flush()
  return seqs
}

test('backups that are restored one after the other give out no number twice, whichever was made first', async (t) => {
  const { open, backUp, copy, pass } = await machine(t, Date.UTC(2026, 0))
  const given: number[] = []
  const log = await open('log')
  given.push(...(await appended(log, 3)))
  await backUp('log', 'older')
  given.push(...(await appended(log, 3)))
  await backUp('log', 'newer')
  given.push(...(await appended(log, 3)))
  for (const [n, name] of ['newer', 'older', 'older', 'newer'].entries()) {
    pass(2000)
    await copy(name, `restored-${n}`)
    const restored = await open(`restored-${n}`)
    given.push(...(await appended(restored, 3)))
    // A backup of a copy is one as well.
    await backUp(`restored-${n}`, `again-${n}`)
    pass(2000)
    const again = await open(`again-${n}`)
    given.push(...(await appended(again, 3)))
  }
  assert.deepEqual(
    given,
    [...new Set(given)].toSorted((a, b) => a - b),
  )
  assert.equal(given.length, 9 + 4 * 6)
})

test('a copy goes on where its first start began, and one that gave nothing out chooses once more', async (t) => {
  const { open, backUp, copy, pass, repair } = await machine(t, Date.UTC(2026, 0))
  const log = await open('log')
  await appended(log, 3)
  await backUp('log', 'copy')
  await repair('copy')
  await copy('copy', 'early')
  pass(1000)
  const first = await open('copy')
  // As a kill would leave it.
  await copy('copy', 'killed')
  const begun = first.nextSeq
  await first.endFile()
  await copy('copy', 'ended')
  assert.deepEqual(await appended(first, 1), [begun])
  await copy('copy', 'written')
  pass(1000)
  const killed = await open('killed')
  assert.ok(killed.nextSeq > begun)
  pass(-10_000)
  const ended = await open('ended')
  assert.equal(ended.nextSeq, begun)
  pass(86_400_000)
  const written = await open('written')
  assert.equal(written.nextSeq, begun + 1 + 100_000)
  // A date that was set back leads to none that the log may have given out before the copy was made.
  pass(-30 * 86_400_000)
  const early = await open('early')
  assert.equal(early.nextSeq, Date.UTC(2026, 0) * 100)
})

test('a date that cannot be right moves no number, and a copy leaves out a billion then', () => {
  const [before, then, after] = [0, Date.UTC(2026, 0), Date.UTC(9999, 0)]
  for (const nowMs of [before, after, NaN]) {
    assert.equal(limitOfCopy(7, nowMs), 1_000_000_007)
    assert.equal(limitAtStart({ limit: 7, secret: 0n, isCopy: true }, nowMs), 7)
  }
  const limit = limitOfCopy(7, then)
  assert.equal(limit, then * 100)
  assert.equal(limitAtStart({ limit, secret: 0n, isCopy: true }, then - 1), limit)
  assert.equal(limitAtStart({ limit, secret: 0n }, then + 1), limit)
  // Numbers that are ahead of the date, as those of an operator may be.
  const ahead = limit + 1_000_000_001
  assert.equal(limitOfCopy(ahead, then), ahead + 1_000_000_000)
  assert.equal(limitOfCopy(limit + 100_000, then), limit + 100_000)
  assert.ok(limitOfCopy(7, Date.UTC(2199, 11)) < 1e15)
})
