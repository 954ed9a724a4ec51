import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Reading, Readings } from './readings.ts'

const host = 'pds.example.com'

test('a host whose large repositories wait has its others read, and two large ones wait at a time', () => {
  const readings = new Readings()
  const begin = (n: number, place = host): Reading => readings.begin(`did:plc:${n}`, place)
  assert.deepEqual(
    [0, 1].map((n) => readings.enlarge(begin(n))),
    [host, host],
  )
  assert.equal(readings.roomFor(host), 2)
  const third = begin(2)
  assert.equal(readings.enlarge(third), undefined)
  assert.equal(third.isLarge, false)
  assert.equal(readings.roomFor(host), 1)
  const unknown = begin(3, '')
  assert.equal(readings.move(unknown, host), true)
  assert.equal(readings.move(begin(4, ''), host), false)
  readings.end('did:plc:0')
  assert.equal(readings.enlarge(third), host)
})
