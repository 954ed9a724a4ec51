import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import { createLogger } from '@tributary/telemetry'
import { NoticeLog } from './notice-log.ts'
import { NoticeRows } from './notice-rows.ts'

const hourMs = 3_600_000
const all = { limit: 100_000 }

/** Notices in memory, with the lines that they leave in the log. */
function begin() {
  const clock = { nowMs: 1_700_000_000_000 }
  const lines: string[] = []
  const destination = new Writable({
    write: (chunk: Buffer, _, done) => {
      lines.push(chunk.toString())
      done()
    },
  })
  const rows = new NoticeRows(':memory:')
  const logger = createLogger('relay', { destination })
  const notices = new NoticeLog(rows, { logger, fail: assert.ifError, nowMs: () => clock.nowMs })
  return { clock, lines, notices, rows }
}

test('a flood of refused crawl requests floods neither log nor table, and hides nobody else', () => {
  const { clock, lines, notices, rows } = begin()
  notices.note('source-unreachable', 'quiet.test.dev', 'no answer')
  for (let n = 0; n < 10_000; n++)
    notices.note('crawl-refused', `host${n}.test.dev`, 'HostNotApproved: ask', 'crawl requests')
  assert.equal(rows.list(all).length, 31)
  assert.equal(lines.length, 31)
  assert.equal(notices.skipped, 9970)
  clock.nowMs += hourMs
  notices.note('crawl-refused', 'later.test.dev', 'HostNotApproved: ask', 'crawl requests')
  assert.equal(rows.list(all)[0]?.detail, 'HostNotApproved: ask (9970 notices before this one were not kept)')
  for (let hour = 0; hour < 40; hour++) {
    clock.nowMs += hourMs
    for (let n = 0; n < 30; n++)
      notices.note('crawl-refused', `again${n}.test.dev`, 'HostNotApproved: ask', 'crawl requests')
  }
  assert.equal(rows.list({ ...all, kind: 'crawl-refused' }).length, 500)
  const [kept, ...more] = rows.list({ ...all, subject: 'quiet.test.dev' })
  assert.deepEqual([kept?.kind, kept?.detail, more.length], ['source-unreachable', 'no answer', 0])
  rows.close()
})

test('what others can make long is cut, what is old is forgotten, and pages go on where the last one ended', () => {
  const { clock, notices, rows } = begin()
  notices.note('crawl-refused', 'h'.repeat(10_000), 'x'.repeat(10_000))
  const [long] = rows.list(all)
  assert.deepEqual([long?.subject.length, long?.detail.length], [300, 300])
  clock.nowMs += 91 * 24 * hourMs
  notices.note('reading-paused', 'relay', 'too little disk is free')
  notices.note('reading-resumed', 'relay', 'enough disk is free')
  const [newest] = rows.list({ limit: 1 })
  const older = rows.list({ ...all, before: newest?.id ?? 0 })
  assert.deepEqual([newest?.kind, older.map(({ kind }) => kind)], ['reading-resumed', ['reading-paused']])
  rows.close()
})

test('the list has a notice that is still being stored, and a store that refuses one is told', async () => {
  const refused = new Error('the disk is full')
  const errors: Error[] = []
  const slow = new NoticeRows(':memory:')
  const store = {
    add: async (...[row, share]: Parameters<NoticeRows['add']>) => {
      await Promise.resolve()
      if (row.subject === 'refused.test.dev') throw refused
      slow.add(row, share)
    },
    list: slow.list.bind(slow),
  }
  const logger = createLogger('relay', { level: 'silent' })
  const notices = new NoticeLog(store, { logger, fail: (error) => errors.push(error) })
  notices.note('source-unreachable', 'slow.test.dev', 'no answer')
  assert.deepEqual(
    (await notices.list(all)).map(({ subject }) => subject),
    ['slow.test.dev'],
  )
  notices.note('source-unreachable', 'refused.test.dev', 'no answer')
  await notices.close()
  assert.deepEqual(errors, [refused])
  slow.close()
})
