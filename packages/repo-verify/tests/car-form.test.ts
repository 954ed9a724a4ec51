/** CARs that are not written as they must be, as the reader of messages and repositories meets them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode } from '@atcute/cbor'
import { readCar } from '../src/car.ts'
import { refusing } from '../src/refusal.ts'
import { block, carOf, link } from './frame-builder.ts'

const one = block({ text: 'a block' })
const header = carOf([one.cid], [])
const body = carOf([one.cid], [one]).subarray(header.length)

function verdict(parts: Uint8Array[], checked = true): string {
  const bytes = Buffer.concat(parts)
  const car = refusing(() => readCar(bytes, 0, bytes.length, checked))
  return 'reason' in car ? car.reason : `${car.blocks.size} blocks`
}

test('a CAR as it must be is read', () => {
  assert.equal(verdict([header, body]), '1 blocks')
  assert.equal(verdict([header]), '0 blocks')
})

test('a block must hash to every byte of its CID', () => {
  for (let at = 4; at < 36; at++) {
    const cid = one.cid.map((byte, i) => (i === at ? byte ^ 1 : byte))
    assert.equal(verdict([carOf([one.cid], [{ ...one, cid }])]), 'bad-block-hash')
  }
})

test('a section that is shorter than a CID is refused, also where hashes are not checked', () => {
  const prefix = Uint8Array.of(1, 0x71, 0x12, 0x20)
  for (const length of [0, 4, 35]) {
    const section = Buffer.concat([Uint8Array.of(length), prefix, Buffer.alloc(Math.max(0, length - 4))])
    for (const checked of [true, false])
      assert.equal(verdict([header, section.subarray(0, 1 + length), body], checked), 'malformed-car')
  }
})

test('a section that goes on past the end is refused, also where hashes are not checked', () => {
  for (const checked of [true, false])
    assert.equal(verdict([header, body.subarray(0, -1)], checked), 'malformed-car')
})

test('lengths that are not in their shortest form, or too long, are refused', () => {
  const [length = 0] = body
  assert.ok(length < 0x80)
  assert.equal(verdict([header, Uint8Array.of(length | 0x80, 0), body.subarray(1)]), 'malformed-car')
  assert.equal(
    verdict([header, Uint8Array.of(length | 0x80, 0x80, 0x80, 0x80, 0), body.subarray(1)]),
    'malformed-car',
  )
  assert.equal(
    verdict([Uint8Array.of((header[0] ?? 0) | 0x80, 0), header.subarray(1), body]),
    'malformed-car',
  )
})

test('a header with bytes after its end is refused', () => {
  const map = encode({ roots: [link(one.cid)], version: 1 })
  assert.equal(verdict([Uint8Array.of(map.length), map, body]), '1 blocks')
  assert.equal(verdict([Uint8Array.of(map.length + 1), map, Uint8Array.of(0), body]), 'malformed-car')
})
