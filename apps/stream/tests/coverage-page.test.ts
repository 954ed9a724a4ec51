/** What a browser shows of the coverage. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { BackfillStore } from '../src/backfill/backfill-store.ts'
import { openStateDatabase } from '../src/state-database.ts'
import { startTestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'
const profile = 'app.social.actor.profile'

test('the page of coverage says what is complete and what is unknown, without markup of others, page by page', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'coverage-'))
  const database = openStateDatabase(join(directory.path, 'state.sqlite'))
  const store = new BackfillStore(database)
  const odd = '<script src="//evil.example">'
  const hosts = Array.from({ length: 25 }, (_, n) => `pds${String(n).padStart(2, '0')}.example.com`)
  store.addHosts([...hosts, odd], 1)
  const [first = ''] = hosts
  const [id = 0] = store.begin({ host: first, collection: '', cause: 'host-added', revision: 1 }, 1)
  store.setState(id, 'done', 2, 77)
  database.close()
  await using stream = await startTestStream({
    dataDirectory: directory.path,
    collections: [follow, profile],
  })
  const page = async (path: string): Promise<{ headers: Headers; text: string }> => {
    const answer = await fetch(`${stream.url}${path}`)
    assert.equal(answer.status, 200)
    return { headers: answer.headers, text: await answer.text() }
  }
  const { headers, text } = await page('/coverage')
  assert.match(headers.get('content-type') ?? '', /^text\/html/)
  assert.match(headers.get('content-security-policy') ?? '', /^default-src 'none';/)
  assert.equal(/<script|<b>/.test(text), false)
  assert.match(text, /<h2>&#60;script src=&#34;\/\/evil\.example&#34;&#62;<\/h2>/)
  const complete = `<dt class="complete">complete: what there was before seq 77, and every event since</dt><dd>${follow}, ${profile}</dd>`
  assert.equal(text.includes(complete), true)
  assert.match(text, /<dt class="unknown">unknown: no backfill of this PDS was done<\/dt>/)
  assert.match(text, /<dt>Segments that takedowns have yet to leave<\/dt><dd>none<\/dd>/)
  const [, next = ''] = /<a href="(\?cursor=[^"]+)">/.exec(text) ?? []
  const { text: rest } = await page(`/coverage${next}`)
  const shown = [text, rest].flatMap((each) =>
    Array.from(each.matchAll(/<h2>(pds.*)<\/h2>/g), ([, host]) => host),
  )
  assert.deepEqual([shown, rest.includes('?cursor=')], [hosts, false])
})

test('callers of coverage take turns, and one network has so many calls waiting at most', async () => {
  await using stream = await startTestStream({ collections: [follow] })
  const paths = ['/coverage', '/xrpc/network.social.stream.getCoverage']
  const flood = Array.from({ length: 300 }, async (_, n) => {
    const answer = await fetch(`${stream.url}${paths[n % 2]}`)
    await answer.arrayBuffer()
    return answer.status
  })
  assert.deepEqual(new Set(await Promise.all(flood)), new Set([200, 429]))
  assert.equal((await fetch(`${stream.url}/coverage`)).status, 200)
})
