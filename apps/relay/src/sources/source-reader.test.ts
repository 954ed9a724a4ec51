import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleMessage } from '../../tests/sample-message.ts'
import { sampleSource } from '../../tests/sample-source.ts'
import { SourceReader, type EventReceiver } from './source-reader.ts'
import { livePosition } from './source.ts'

/** Reads events of these numbers from a position. @returns how often numbers were left out. */
function gapsOf(position: number, seqs: readonly number[]): number {
  const source = sampleSource()
  source.cursor = position
  const receiver: EventReceiver = {
    receive: (_, message, __, lastSeq) =>
      ('upstreamSeq' in message ? message.upstreamSeq : undefined) ?? lastSeq,
  }
  const reader = new SourceReader(source, receiver)
  for (const seq of seqs) reader.take(sampleMessage(seq), 10)
  return source.gaps
}

test('numbers that a source left out are counted, also between two connections', () => {
  assert.equal(gapsOf(5, [6, 7]), 0)
  assert.equal(gapsOf(5, [5, 6]), 0, 'some send the event at the position again')
  assert.equal(gapsOf(5, [6, 9, 10]), 1)
  assert.equal(gapsOf(5, [90, 91]), 1, 'nothing else tells of what a relay has not kept')
  for (const position of [0, livePosition]) assert.equal(gapsOf(position, [90, 91]), 0, 'it begins there')
})
