import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { DatabaseWriter } from './database-writer.ts'

test('a thread without requests ends, and the next request begins one that goes on', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'database-writer-'))
  const writer = new DatabaseWriter({ idleMs: 20 })
  try {
    const notices = writer.notices(join(directory, 'notices.sqlite'))
    const subjects = ['first', 'second', 'third']
    for (const subject of subjects) {
      const adding = notices.add({ atMs: Date.now(), kind: 'crawl-refused', subject, detail: '' }, '')
      assert.ok(writer.hasThread)
      await adding
      while (writer.hasThread) await delay(5)
    }
    const stored = await notices.list({ limit: 10 })
    assert.deepEqual(stored.map(({ subject }) => subject).toReversed(), subjects)
  } finally {
    await writer.close()
    rmSync(directory, { recursive: true })
  }
})

test('a thread that is asked without pause goes on', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'database-writer-'))
  const writer = new DatabaseWriter({ idleMs: 0 })
  try {
    const notices = writer.notices(join(directory, 'notices.sqlite'))
    const asked = Array.from({ length: 200 }, async () => await notices.list({ limit: 1 }))
    const answers = await Promise.all(asked)
    assert.equal(answers.length, 200)
    const last = notices.list({ limit: 1 })
    await writer.close()
    assert.deepEqual(await last, [], 'what was asked before the end is answered')
  } finally {
    rmSync(directory, { recursive: true })
  }
})
