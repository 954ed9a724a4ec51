import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseSegmentName, segmentName } from './segment-name.ts'

test('segment names count in base 36 and sort in order', () => {
  const names = { 0: '0000000000', 35: '000000000z', 36: '0000000010', 82: '000000002a' }
  for (const [index, digits] of Object.entries(names)) {
    assert.equal(segmentName(Number(index)), `seg_${digits}.jss`)
    assert.equal(parseSegmentName(`seg_${digits}.jss`), Number(index))
  }
  assert.ok(segmentName(35) < segmentName(36))
  assert.equal(parseSegmentName(segmentName(36 ** 10 - 1)), 36 ** 10 - 1)
})

test('only names that a segment can have are parsed', () => {
  const others = [
    'seg_000000000Z.jss',
    'seg_00000000000.jss',
    'seg_000000000.jss',
    'seg_+000000001.jss',
    'seg_0000000001.jss.tmp',
    'seg_0000000001.JSS',
    'seg_0000000001.jss\n',
    'xseg_0000000001.jss',
    '../seg_0000000001.jss',
    '',
  ]
  for (const name of others) assert.equal(parseSegmentName(name), undefined, name)
})

test('an index that no name can hold is refused', () => {
  for (const index of [-1, 0.5, NaN, 36 ** 10])
    assert.throws(() => segmentName(index), { problem: 'bad-name' })
})
