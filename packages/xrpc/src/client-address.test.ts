import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { clientAddressReader, trustedProxyCheck } from './client-address.ts'

function addressOf(trustedProxies: string[], remoteAddress: string, forwarded?: string | string[]): string {
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
  // The two fields of a request that the reader looks at.
  const request = { socket: { remoteAddress }, headers } as unknown as IncomingMessage
  return clientAddressReader(trustedProxyCheck(trustedProxies))(request)
}

test('without trusted proxies the header is a claim and nothing more', () => {
  assert.equal(addressOf([], '192.0.2.1', '203.0.113.9'), '192.0.2.1')
  assert.equal(addressOf(['198.51.100.1'], '192.0.2.1', '203.0.113.9'), '192.0.2.1')
})

test('behind trusted proxies the client is the last address that none of them has', () => {
  const trusted = ['10.0.0.0/8', '2001:db8::1']
  assert.equal(addressOf(trusted, '10.1.2.3', '203.0.113.9'), '203.0.113.9')
  assert.equal(addressOf(trusted, '10.1.2.3', 'made-up, 198.51.100.7, 203.0.113.9, 10.9.9.9'), '203.0.113.9')
  assert.equal(addressOf(trusted, '2001:db8::1', ['198.51.100.7', '203.0.113.9']), '203.0.113.9')
  assert.equal(addressOf(trusted, '::ffff:10.1.2.3', '2001:db8::5'), '2001:db8::5')
  assert.equal(addressOf(trusted, '::FFFF:0a01:0203', '2001:0DB8:0::5'), '2001:db8::5')
  assert.equal(addressOf(trusted, '10.1.2.3', '::ffff:cb00:7109'), '203.0.113.9')
})

test('a header that ends or says nothing useful leaves the nearest known address', () => {
  assert.equal(addressOf(['10.0.0.0/8'], '10.1.2.3'), '10.1.2.3')
  assert.equal(addressOf(['10.0.0.0/8'], '10.1.2.3', 'unknown'), '10.1.2.3')
  assert.equal(addressOf(['10.0.0.0/8'], '10.1.2.3', ', ,10.0.0.1'), '10.0.0.1')
  assert.equal(addressOf(['0.0.0.0/0'], '10.1.2.3', '1.1.1.1, 2.2.2.2'), '1.1.1.1')
})

test('an address counts as it is where a proxy adds the port', () => {
  const trusted = ['10.0.0.0/8']
  assert.equal(addressOf(trusted, '10.1.2.3', '203.0.113.9:51234'), '203.0.113.9')
  assert.equal(addressOf(trusted, '10.1.2.3', '203.0.113.9:1, 10.9.9.9:51234'), '203.0.113.9')
  assert.equal(addressOf(trusted, '10.1.2.3', '[2001:db8::5]:51234'), '2001:db8::5')
  assert.equal(addressOf(trusted, '10.1.2.3', '[2001:db8::5]'), '2001:db8::5')
  for (const none of ['203.0.113.9:', ':80', '[203.0.113.9', 'unknown:80', '1.2.3:80'])
    assert.equal(addressOf(trusted, '10.1.2.3', none), '10.1.2.3')
})

test('a proxy that is no address is refused at the start', () => {
  for (const bad of ['proxy.example', '10.0.0.0/33', '10.0.0.0/x', '']) {
    assert.throws(() => trustedProxyCheck([bad]), RangeError)
  }
})
