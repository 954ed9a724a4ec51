/** The page that tails a stream, in a real Chromium. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Browser, startPlc, startScriptedHost } from '@tributary/testkit'
import { startTestStream } from './start-test-stream.ts'

const [first, second] = ['org.impact.collection', 'org.hyperboards.board']

test('a page shows events as they happen, those of a filter, and what is in them as text', async (t) => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using stream = await startTestStream({
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
    collections: [first, second],
  })
  await using browser = await Browser.open(`${stream.url}/tail`)
  if (browser === undefined) return t.skip('there is no Chromium for this machine')
  /** What the page shows, the newest first, as soon as there is so much of it. */
  const shown = async (count: number): Promise<Record<string, unknown>[]> => {
    const items = await browser.until(
      `list.children.length >= ${count} && [...list.querySelectorAll('pre')].map((item) => item.textContent)`,
    )
    return (items as string[]).map((text) => JSON.parse(text) as Record<string, unknown>)
  }
  await browser.until("state.textContent === 'live'")
  const account = await host.createAccount()
  const title = '<img src=x onerror="document.title = 1">'
  account.create(second, { title }, 'a')
  // After an identity, an account and a sync.
  const [newest] = await shown(4)
  assert.deepEqual([newest?.['collection'], newest?.['record']], [second, { $type: second, title }])
  assert.equal(await browser.until('document.images.length === 0 && document.title'), 'Events of this stream')

  await browser.until(`(collections.value = 'org.impact.*') && (collections.form.requestSubmit() ?? true)`)
  await browser.until("location.search !== '' && socket.readyState === 1 && state.textContent === 'live'")
  assert.equal(await browser.until('list.children.length === 0 && collections.value'), 'org.impact.*')
  account.create(second, {}, 'b')
  account.create(first, {}, 'c')
  account.create(first, {}, 'd')
  const rkeys = async (count: number): Promise<unknown[]> => (await shown(count)).map(({ rkey }) => rkey)
  assert.deepEqual(await rkeys(2), ['d', 'c'])

  // It goes on after the last event when the connection ends.
  await browser.until('socket.close() ?? true')
  account.create(first, {}, 'e')
  assert.deepEqual(await rkeys(3), ['e', 'd', 'c'])

  // Nothing moves while somebody reads.
  await browser.until('held.click() ?? true')
  account.create(first, { title: 'a tree' }, 'f')
  await browser.until("more.textContent === '1 newer' && list.children.length === 3")
  await browser.until('held.click() ?? true')
  assert.deepEqual(await rkeys(4), ['f', 'e', 'd', 'c'])
  const summary = await browser.until("document.querySelector('summary').textContent")
  assert.match(String(summary), /^\d\d:\d\d:\d\dcreateorg\.impact\.collectiona treedid:plc:/)

  // A browser tells a page nothing of a refusal: the page asks for it, and not again and again.
  await browser.until(`query.set('cursor', 'x') ?? socket.close() ?? true`)
  await browser.until("state.textContent.includes('cursor')")
  await browser.until('socket.readyState === 3')
  await browser.until(`query.delete('cursor') ?? open() ?? true`)
  await browser.until("state.textContent === 'live'")
})
