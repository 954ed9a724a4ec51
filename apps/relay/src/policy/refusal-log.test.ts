import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { Source } from '../sources/source.ts'
import { RefusalLog } from './refusal-log.ts'
import { newSourcePolicy } from './source-policy.ts'

const dayMs = 86_400_000

function sourceAt(host: string): Source {
  const place = { id: 1, host, url: `wss://${host}` }
  return new Source(
    { ...place, cursor: 0, epoch: 1, epochAtMs: 0, ahead: [], newestLogged: [], looks: [] },
    { ...place, policy: newSourcePolicy, revision: 1, addedAtMs: 0 },
  )
}

function inDirectory(run: (open: () => RefusalLog) => void): () => void {
  return () => {
    const directory = mkdtempSync(join(tmpdir(), 'refusals-'))
    try {
      run(() => new RefusalLog(join(directory, 'refusals.sqlite')))
    } finally {
      rmSync(directory, { recursive: true })
    }
  }
}

const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' as Did // of the right form
const [noisy, quiet] = [sourceAt('noisy.test.dev'), sourceAt('quiet.test.dev')]
const all = { limit: 100_000 }

test(
  'a flood is counted, but no more than so many rows are kept of one flush and of one source',
  inDirectory((open) => {
    const log = open()
    log.note(quiet, 'bad-signature', 'the one that matters', {
      did,
      upstreamSeq: 7,
      type: '#commit',
    })
    for (let flush = 0; flush < 30; flush++) {
      for (let n = 0; n < 300; n++) log.note(noisy, 'malformed-frame', `${flush}`)
      log.flush()
    }
    assert.equal(log.skipped, 30 * 100)
    const rows = log.list({ ...all, host: noisy.host })
    assert.equal(rows.length, 5000)
    assert.deepEqual([rows[0]?.detail, rows.at(-1)?.detail], ['29', '5'], 'the oldest went')
    log.close()
    const again = open()
    again.note(noisy, 'malformed-frame', 'after a restart')
    assert.equal(again.list({ ...all, host: noisy.host }).length, 5000)
    const [kept, ...more] = again.list({ ...all, host: quiet.host })
    const { reason, upstreamSeq, kind, detail } = kept ?? {}
    const found = [reason, kept?.did, upstreamSeq, kind, detail, more.length]
    assert.deepEqual(found, ['bad-signature', did, 7, '#commit', 'the one that matters', 0])
    again.close()
  }),
)

test(
  'what hosts can make long is cut, and what is a week old is forgotten',
  inDirectory((open) => {
    const log = open()
    log.note(noisy, 'unknown-event', 'x'.repeat(100_000), { type: 'y'.repeat(100_000) })
    const [row] = log.list(all)
    assert.deepEqual([row?.detail.length, row?.kind?.length], [256, 32])
    log.flush(Date.now() + 6 * dayMs)
    assert.equal(log.list(all).length, 1)
    log.flush(Date.now() + 8 * dayMs)
    assert.equal(log.list(all).length, 0)
    log.close()
  }),
)
