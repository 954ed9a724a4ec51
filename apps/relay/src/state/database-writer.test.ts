import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { Did } from '@tributary/protocol'
import Database from 'better-sqlite3'
import { NoticeRows } from '../policy/notice-rows.ts'
import { DatabaseWriter } from './database-writer.ts'
import { prepare } from './schema.ts'

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

test('a program that writes into a database for a moment is waited for', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'database-writer-'))
  const path = (name: string) => join(directory, `${name}.sqlite`)
  const writer = new DatabaseWriter()
  using disposables = new DisposableStack()
  const open = (name: string) => disposables.adopt(new Database(path(name)), (file) => file.close())
  try {
    const files = ['state', 'notices'].map(open)
    if (files[0]) prepare(files[0])
    new NoticeRows(path('notices')).close()
    const nothing = { appliedSeq: 1, forgotten: [], accounts: [], sources: [], identities: [] }
    const rows = { ...nothing, collections: [['app.bsky.feed.post', 'did:plc:abc']] as [string, Did][] }
    const notices = writer.notices(path('notices'))
    // On a busy machine the thread takes longer to begin than the files are locked.
    await writer.notices(path('other')).list({ limit: 1 })
    // It opens the files the first time, and has them open the second time.
    for (const _ of [1, 2]) {
      for (const file of files) file.exec('BEGIN IMMEDIATE')
      const written = Promise.all([
        writer.writeState(path('state'), rows),
        notices.add({ atMs: Date.now(), kind: 'crawl-refused', subject: 'a host', detail: '' }, ''),
      ])
      await delay(200)
      for (const file of files) file.exec('COMMIT')
      await written
    }
    assert.equal((await notices.list({ limit: 10 })).length, 2)
  } finally {
    await writer.close()
    rmSync(directory, { recursive: true })
  }
})
