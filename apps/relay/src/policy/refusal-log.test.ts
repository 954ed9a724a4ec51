import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { sampleSource } from '../../tests/sample-source.ts'
import type { Source } from '../sources/source.ts'
import { DatabaseWriter } from '../state/database-writer.ts'
import { RefusalLog } from './refusal-log.ts'
import { RefusalRows } from './refusal-rows.ts'

const dayMs = 86_400_000

function sourceAt(host: string): Source {
  return sampleSource(undefined, { host, url: `wss://${host}` })
}

/** Opens the same file on a thread each time. */
function inDirectory(run: (open: () => OpenLog) => Promise<void>): () => Promise<void> {
  return async () => {
    const directory = mkdtempSync(join(tmpdir(), 'refusals-'))
    try {
      await run(() => {
        const writer = new DatabaseWriter()
        const log = new RefusalLog(writer.refusals(join(directory, 'refusals.sqlite')), assert.ifError)
        const close = async (): Promise<void> => {
          await log.close()
          await writer.close()
        }
        return { log, close }
      })
    } finally {
      rmSync(directory, { recursive: true })
    }
  }
}

interface OpenLog {
  log: RefusalLog
  close: () => Promise<void>
}

const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' as Did // of the right form
const [noisy, quiet] = [sourceAt('noisy.test.dev'), sourceAt('quiet.test.dev')]
const all = { limit: 100_000 }

test(
  'a flood is counted, but no more than so many rows are kept of one flush and of one source',
  inDirectory(async (open) => {
    const { log, close } = open()
    log.note(quiet, 'bad-signature', 'the one that matters', {
      did,
      upstreamSeq: 7,
      type: '#commit',
    })
    for (let flush = 0; flush < 30; flush++) {
      for (let n = 0; n < 300; n++) log.note(noisy, 'malformed-frame', `${flush}`)
      await log.flush()
    }
    assert.equal(log.skipped, 30 * 100)
    const rows = await log.list({ ...all, host: noisy.host })
    assert.equal(rows.length, 5000)
    assert.deepEqual([rows[0]?.detail, rows.at(-1)?.detail], ['29', '5'], 'the oldest went')
    await close()
    const { log: again, close: closeAgain } = open()
    again.note(noisy, 'malformed-frame', 'after a restart')
    assert.equal((await again.list({ ...all, host: noisy.host })).length, 5000)
    const [kept, ...more] = await again.list({ ...all, host: quiet.host })
    const { reason, upstreamSeq, kind, detail } = kept ?? {}
    const found = [reason, kept?.did, upstreamSeq, kind, detail, more.length]
    assert.deepEqual(found, ['bad-signature', did, 7, '#commit', 'the one that matters', 0])
    await closeAgain()
  }),
)

test(
  'what hosts can make long is cut, and what is a week old is forgotten',
  inDirectory(async (open) => {
    const { log, close } = open()
    log.note(noisy, 'unknown-event', 'x'.repeat(100_000), { type: 'y'.repeat(100_000) })
    const [row] = await log.list(all)
    assert.deepEqual([row?.detail.length, row?.kind?.length], [256, 32])
    assert.equal((await log.list(all, Date.now() + 6 * dayMs)).length, 1)
    assert.equal((await log.list(all, Date.now() + 8 * dayMs)).length, 0)
    log.note(quiet, 'unknown-event', 'a week later')
    await log.flush(Date.now() + 8 * dayMs)
    assert.deepEqual(
      (await log.list(all)).map(({ detail }) => detail),
      ['a week later'],
    )
    await close()
  }),
)

test('what a store refuses is told, and the rows that come after it are stored all the same', async () => {
  const errors: Error[] = []
  const rows = new RefusalRows(':memory:')
  let isFull = true
  const store = {
    add: (...[added, nowMs]: Parameters<RefusalRows['add']>) => {
      if (isFull) throw new Error('the disk is full')
      rows.add(added, nowMs)
    },
    list: rows.list.bind(rows),
  }
  const log = new RefusalLog(store, (error) => errors.push(error))
  log.note(noisy, 'malformed-frame', 'first')
  await log.flush()
  assert.deepEqual(
    errors.map(({ message }) => message),
    ['the disk is full'],
  )
  isFull = false
  log.note(noisy, 'malformed-frame', 'second')
  assert.deepEqual(
    (await log.list(all)).map(({ detail }) => detail),
    ['second'],
  )
  await log.close()
  rows.close()
})
