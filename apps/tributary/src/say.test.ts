import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sayError, sayNotice } from './say.ts'

test('what others wrote is said in a line that is no command, and is not long', () => {
  const said: string[] = []
  const output = {
    writableNeedDrain: false,
    write: (text: string | Uint8Array) => said.push(String(text)) > 0,
  }
  sayError(`no answer: \u001b[2J\u202e\n${'x'.repeat(5_000_000)}`, output)
  assert.equal(said.length, 1)
  assert.match(said[0] ?? '', /^no answer: {2}\[2J {2}x+…\n$/)
  assert.equal(said[0]?.length, 501)
})

test('notices that nobody reads are counted, and are not held', () => {
  const said: string[] = []
  const output = {
    writableNeedDrain: true,
    write: (text: string | Uint8Array) => said.push(String(text)) > 0,
  }
  for (let i = 0; i < 1000; i++) sayNotice('again', output)
  output.writableNeedDrain = false
  sayNotice('now', output)
  sayNotice('later', output)
  output.writableNeedDrain = true
  sayError('the end', output)
  const expected = ['1000 lines were left out, which nobody read in time\nnow\n', 'later\n', 'the end\n']
  assert.deepEqual(said, expected)
})
