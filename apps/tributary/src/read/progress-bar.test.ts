import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DownloadProgress } from '@tributary/client/node'
import { progressText, seqText } from './progress-bar.ts'

const halfway: DownloadProgress = {
  type: 'downloading',
  segment: 'seg_0000000001.jss',
  bytes: 50_000_000,
  doneBytes: 50_000_000,
  totalBytes: 200_000_000,
  fromSeq: 0,
  cursor: 900_000,
  throughSeq: 1_000_000,
}

test('progress counts bytes and not seqs, and tells rate and time left', () => {
  assert.equal(
    progressText(halfway, { events: 10, seconds: 5 }),
    '[######..................] 25 %  50.0 of 200.0 MB  10 events  10.0 MB/s  15 s left',
  )
  assert.match(progressText(halfway, { events: 10, seconds: 100 }), /0\.5 MB\/s {2}5 min 0 s left$/)
  assert.match(progressText(halfway, { events: 10, seconds: 2500 }), /0\.0 MB\/s {2}2 h 5 min left$/)
})

test('where the size of the archive is not known, progress says how far it has come', () => {
  const text = progressText({ ...halfway, totalBytes: undefined }, { events: 10, seconds: 5 })
  assert.equal(text, '50.0 MB  seq 900000 of 1000000  10 events  10.0 MB/s')
})

test('events that come without a download are shown by their seqs, with the rate and the time left', () => {
  const progress = { afterSeq: 100, cursor: 150, throughSeq: 300 }
  assert.equal(
    seqText(progress, { events: 40, seconds: 2 }),
    '[######..................] 25 %  seq 150 of 300  40 events  20 events/s  6 s left',
  )
  assert.match(
    seqText({ ...progress, cursor: 100 }, { events: 0, seconds: 0 }),
    /^\[\.+\] 0 % .* 0 events\/s$/,
  )
})
