import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { TestClock } from '../../tests/test-clock.ts'
import { HostInquiry, type HostInquiryOptions } from './host-inquiry.ts'

/** Asks hosts for the status of the account `NUMBER-HOST`. Questions about `evil` hosts and accounts get no answer. */
function startInquiry(): (name: string, cause: string) => Promise<string | undefined> {
  const identityOf = (did: Did) => {
    const pdsHost = `${did.split('-')[1]}.example.com`
    return { did, pdsHost, pdsUrl: `https://${pdsHost}` }
  }
  const options = {
    resolver: { peek: identityOf, resolve: async (did: Did) => Promise.resolve(identityOf(did)) },
    allowedPrivateHosts: [],
    userAgent: '',
    clock: new TestClock(),
    fetch: async (url: string, _: unknown, take: (piece: Buffer, head: unknown) => unknown) => {
      if (url.includes('evil')) return await new Promise(() => {})
      const head = { status: 200, headers: {} }
      const did = new URL(url).searchParams.get('did')
      take(Buffer.from(JSON.stringify({ did, active: true })), head)
      return Promise.resolve(head)
    },
  } as unknown as HostInquiryOptions // all of them that this uses
  const inquiry = new HostInquiry(options)
  return async (name, cause) => await inquiry.status(`did:plc:${name}` as Did, { cause }) // a name is enough here
}

test('few hosts behind a relay do not take all places for the questions that the relay causes', async () => {
  const statusOf = startInquiry()
  for (let n = 0; n < 40; n++) void statusOf(`${n}-evil`, 'relay')
  assert.equal(await statusOf('1-good', 'relay'), 'active')
  const takeAllOf = (hosts: number): void => {
    for (let host = 0; host < hosts; host++)
      for (let n = 0; n < 8; n++) void statusOf(`${n}-${host}.evil`, 'relay')
  }
  takeAllOf(10)
  assert.equal(await statusOf('2-good', 'relay'), 'active')
  // A relay has a bounded number of places all the same.
  takeAllOf(20)
  assert.equal(await statusOf('2-good', 'relay'), undefined)
  assert.equal(await statusOf('2-good', 'other relay'), 'active')
})

test('one relay does not take all places of a host for the questions that another one causes', async () => {
  const statusOf = startInquiry()
  for (let n = 0; n < 40; n++) void statusOf(`evil${n}-good`, 'relay')
  assert.equal(await statusOf('1-good', 'other relay'), 'active')
})
