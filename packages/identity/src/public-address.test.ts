import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isPublicAddress } from './public-address.ts'

test('global unicast addresses are public', () => {
  for (const address of [
    '1.1.1.1',
    '8.8.8.8',
    '172.32.0.1',
    '192.0.1.1',
    '100.128.0.1',
    '223.255.255.255',
    '2606:4700::1111',
    '2a00::1',
  ]) {
    assert.equal(isPublicAddress(address), true, address)
  }
})

test('private, local, reserved and embedding addresses are not', () => {
  const addresses = [
    '0.0.0.0 10.1.2.3 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 169.254.169.254 172.16.0.1 172.31.255.255',
    '192.0.0.1 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1',
    '255.255.255.255 :: ::1 fe80::1 fc00::1 fd12::1 ff02::1 ::ffff:10.0.0.1 ::ffff:1.1.1.1 ::127.0.0.1 64:ff9b::a00:1',
    '2002:0a00:0001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 4000::1',
  ]
  for (const address of addresses.join(' ').split(' ')) assert.equal(isPublicAddress(address), false, address)
})

test('what is no address is not public', () => {
  for (const text of ['', 'localhost', '1.1.1', '01.1.1.1', '1.1.1.1:80', 'fe80::1%lo', '[::1]']) {
    assert.equal(isPublicAddress(text), false, text)
  }
})
