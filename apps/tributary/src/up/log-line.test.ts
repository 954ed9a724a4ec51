import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderLine } from './log-line.ts'

const line = JSON.stringify({
  service: 'relay',
  level: 'warn',
  time: '2026-01-02T03:04:05.678Z',
  host: 'pds.example',
  err: { message: 'no answer', stack: 'long' },
  msg: 'source lost',
})

test('lines are readable on a terminal: time, service, level by color, message, fields', () => {
  const text = renderLine('relay', line, 'terminal').replaceAll('\x1b', 'ESC')
  assert.match(
    text,
    /^\d\d:\d\d:05 relay {2}ESC\[33mwarn source lost host=pds\.example err="no answer"ESC\[0m$/,
  )
})

test('lines for machines stay as they are, and what is no JSON becomes JSON', () => {
  assert.equal(renderLine('relay', line, 'json'), line)
  const wrapped: unknown = JSON.parse(renderLine('feed', 'Segmentation fault', 'json'))
  assert.deepEqual(
    { ...(wrapped as object), time: '' },
    { service: 'feed', level: 'error', time: '', msg: 'Segmentation fault' },
  ) // an object, as the call promises
  assert.match(renderLine('feed', 'Segmentation fault', 'terminal'), /feed {3}.*Segmentation fault/)
})

test('what others wrote in a line does not reach the terminal as a command', () => {
  const hostile = JSON.stringify({ level: 'info', time: '', msg: 'a\u001b[2J', agent: '\u202ebad' })
  assert.match(renderLine('relay', hostile, 'terminal'), / relay {2}a \[2J agent= bad$/)
})
