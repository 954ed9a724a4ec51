import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { AddressCount } from './address-count.ts'
import { canonicalAddress, networkOf, siteOf } from './network-of.ts'

test('a client with IPv6 counts by its /64, however its address is written', () => {
  const same = [
    '2001:db8::1',
    '2001:DB8:0:0::ffff',
    '2001:0db8:0000:0000:1:2:3:4',
    '2001:db8::192.0.2.1%eth0',
  ]
  assert.deepEqual(new Set(same.map((address) => networkOf(address))), new Set(['2001:db8:0:0::/64']))
  assert.equal(networkOf('2001:db8:0:1::1'), '2001:db8:0:1::/64')
  assert.equal(networkOf('::1'), '0:0:0:0::/64')
  assert.equal(networkOf('1::'), '1:0:0:0::/64')
  assert.equal(networkOf('fe80::1%eth0'), 'fe80:0:0:0::/64')
})

test('a client with IPv6 takes turns with others by its /48, and one with IPv4 by its address', () => {
  const same = ['2001:db8:0:1::1', '2001:DB8:0:ffff::1', '2001:db8::1']
  assert.deepEqual(new Set(same.map((address) => siteOf(address))), new Set(['2001:db8:0::/48']))
  assert.deepEqual(
    ['2001:db8:1::1', '192.0.2.1', '::ffff:192.0.2.1', 'x'].map((address) => siteOf(address)),
    ['2001:db8:1::/48', '192.0.2.1', '192.0.2.1', 'unknown'],
  )
})

test('an IPv4 address within IPv6 counts as the IPv4 address', () => {
  for (const address of ['192.0.2.1', '::ffff:192.0.2.1', '::FFFF:c000:201', '0:0:0:0:0:ffff:c000:0201'])
    assert.equal(networkOf(address), '192.0.2.1')
  assert.equal(networkOf('::ffff:0.0.0.7'), '0.0.0.7')
})

test('what is no address counts as one caller, so that nobody grows a map with it', () => {
  for (const address of ['', 'unknown', '1.2.3', 'x'.repeat(10_000), '[::1]', '::1::', '1.2.3.4:80'])
    assert.equal(networkOf(address), 'unknown')
})

test('any 128 bits give the /64 of their first 64, in any spelling', () => {
  const bits = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 })
  fc.assert(
    fc.property(bits, (groups) => {
      // Mapped IPv4 is the test above.
      if (groups.slice(0, 5).every((group) => group === 0)) return
      const short = groups.map((group) => group.toString(16))
      const long = short.map((group) => group.padStart(4, '0').toUpperCase())
      const expected = `${short.slice(0, 4).join(':')}::/64`
      assert.equal(networkOf(short.join(':')), expected)
      assert.equal(networkOf(long.join(':')), expected)
      assert.equal(networkOf(canonicalAddress(short.join(':')) ?? ''), expected)
    }),
  )
})

test('the addresses of one /64 take from one account, and give back to it', () => {
  const count = new AddressCount()
  for (let i = 0; i < 1000; i++) count.add(`2001:db8::${i.toString(16)}`, 1)
  assert.deepEqual([count.all, count.of('2001:db8::ffff'), count.of('2001:db8:1::1')], [1000, 1000, 0])
  for (let i = 0; i < 1000; i++) count.add(`2001:db8::${i.toString(16)}`, -1)
  assert.deepEqual([count.all, count.of('2001:db8::1'), count.size], [0, 0, 0])
})
