import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import {
  eventually,
  migrateAccount,
  sampleCollections,
  sampleRecord,
  sampleRkey,
  startNetwork,
  type Account,
} from '@tributary/testkit'
import { loadLexicons } from '@tributary/xrpc'
import { FirehoseReader } from './firehose-reader.ts'
import { operate } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const network = await startNetwork({ pds: 3 })
const hosts = network.pds.map(({ host }) => host)
const relay = await startTestRelay({ plcUrl: network.plcUrl, sources: hosts })
after(async () => {
  await relay[Symbol.asyncDispose]()
  await network.stop()
})

const xrpc = (method: string, query: Record<string, string> = {}) =>
  fetch(`${relay.url}/xrpc/${method}?${new URLSearchParams(query).toString()}`)

async function answer(method: string, query: Record<string, string> = {}): Promise<Record<string, unknown>> {
  return (await (await xrpc(method, query)).json()) as Record<string, unknown> // XRPC answers are objects
}

/** Creates, updates and deletes a record of every sample collection and of one that nobody watches. */
async function writeEverything(account: Account): Promise<void> {
  for (const collection of [...sampleCollections, 'com.example.unwatched']) {
    const record = collection.startsWith('com.') ? { text: 'x' } : sampleRecord(collection)
    const rkey = sampleRkey(collection) ?? 'one'
    await account.create(collection, record, rkey)
    await account.put(collection, rkey, { ...record, createdAt: new Date(0).toISOString() })
    if (sampleRkey(collection) === undefined) await account.delete(collection, rkey)
  }
}

test('everything that three PDSs acknowledge arrives complete and in the order of each account', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const accounts = await Promise.all([0, 0, 1, 2].map((pds) => network.createAccount({ pds })))
  await Promise.all(accounts.map(writeEverything))
  await reader.until(() => accounts.every(({ did, journal }) => reader.opsOf(did).length >= journal.length))
  for (const { did, journal } of accounts) assert.deepEqual(reader.opsOf(did), journal)
  assert.deepEqual(
    reader.seqs,
    reader.seqs.toSorted((a, b) => a - b),
  )
  assert.equal(new Set(reader.seqs).size, reader.seqs.length)

  using replaying = new FirehoseReader(relay.url, 0)
  await replaying.until(() => replaying.messages.length >= reader.messages.length)
  assert.ok(reader.messages.every((message, i) => replaying.messages[i]?.equals(message)))
  const middle = reader.seqs[Math.floor(reader.seqs.length / 2)] ?? 0
  using resumed = new FirehoseReader(relay.url, middle)
  await resumed.until(() => resumed.frames.length > 0)
  assert.equal(
    resumed.seqs[0],
    reader.seqs.find((seq) => seq > middle),
  )
})

test('a cursor ahead of the relay gets FutureCursor, one that is no integer is refused before the upgrade', async () => {
  using reader = new FirehoseReader(relay.url, 2 ** 50)
  await reader.until(() => reader.closed !== undefined)
  assert.equal(reader.frames[0]?.body['error'], 'FutureCursor')
  assert.equal(reader.closed?.code, 1008)
  const newest = Number(/newest event is (\d+)/.exec(String(reader.frames[0].body['message']))?.[1])
  using ahead = new FirehoseReader(relay.url, newest + 1)
  await ahead.until(() => ahead.closed !== undefined)
  assert.equal(ahead.frames[0]?.body['error'], 'FutureCursor')
  using upToDate = new FirehoseReader(relay.url, newest)
  await upToDate.opened
  for (const cursor of ['-1', 'x', '1.5']) {
    const response = await xrpc('com.atproto.sync.subscribeRepos', { cursor })
    assert.ok([400, 426].includes(response.status))
    assert.match(await response.text(), /"error":"/)
  }
  assert.deepEqual([upToDate.frames, upToDate.closed], [[], undefined])
})

test('hosts and repositories can be paged through one by one', async () => {
  const page = async (method: string, key: 'hosts' | 'repos'): Promise<string[]> => {
    const found: string[] = []
    for (let cursor: string | undefined; ;) {
      const body = await answer(method, { limit: '1', ...(cursor ? { cursor } : {}) })
      // The relay does not check its own lists.
      loadLexicons().assertValidXrpcOutput(method, body)
      found.push(
        ...(body[key] as { hostname?: string; did?: string }[]).map(
          ({ hostname, did }) => hostname ?? did ?? '',
        ),
      )
      cursor = body['cursor'] as string | undefined
      if (!cursor) return found
    }
  }
  assert.deepEqual(await page('com.atproto.sync.listHosts', 'hosts'), hosts)
  const listed = (await Promise.all(network.pds.map((pds) => pds.listRepos())))
    .flat()
    .filter(({ active }) => active)
  const expected = listed.map(({ did }) => did).toSorted()
  // The list trails the log by up to a quarter of a second.
  let repos: string[] = []
  await eventually(async () => {
    repos = (await page('com.atproto.sync.listRepos', 'repos')).toSorted()
    return repos.length >= expected.length
  })
  assert.deepEqual(repos, expected)
})

test('requestCrawl reconnects an approved PDS and names what is wrong with any other', async () => {
  const crawl = async (hostname: unknown) => {
    const response = await fetch(`${relay.url}/xrpc/com.atproto.sync.requestCrawl`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ hostname }),
    })
    const text = await response.text()
    return [response.status, text ? (JSON.parse(text) as { error: string }).error : '']
  }
  assert.deepEqual(await crawl(hosts[0]), [200, ''])
  assert.deepEqual(await crawl('pds.tributary.dev'), [400, 'HostNotApproved'])
  assert.deepEqual(await crawl('ftp://pds.tributary.dev'), [400, 'InvalidRequest'])
  assert.deepEqual(await crawl('10.0.0.1'), [400, 'InvalidRequest'])
  assert.deepEqual(await crawl(5), [400, 'InvalidRequest'])
  const { body } = await operate(relay, 'listNotices', { query: { kind: 'crawl-refused' } })
  const notices = body['notices'] as { subject: string; detail: string }[] // as its lexicon says
  assert.deepEqual(
    notices.map(({ subject, detail }) => [subject, detail.split(':')[0]]),
    [['pds.tributary.dev', 'HostNotApproved']],
  )
})

const collection = 'org.impact.collection'

interface OutEvent {
  kind: 'commit' | 'sync'
  rev: string
  since: string | undefined
  atMs: number
}

const healMsMax = 60_000

function outOf(reader: FirehoseReader, { did }: { did: string }): OutEvent[] {
  return reader.frames.flatMap(({ t, body }, at): OutEvent[] => {
    const { repo, rev, since } = body
    if ((t !== '#commit' || repo !== did) && (t !== '#sync' || body['did'] !== did)) return []
    const kind = t === '#commit' ? 'commit' : 'sync'
    return [
      {
        kind,
        rev: String(rev),
        since: typeof since === 'string' ? since : undefined,
        atMs: reader.arrivedMs[at] ?? 0,
      },
    ]
  })
}

/**
 * What is wrong with what came out of an account: commits out of order or twice, and gaps that no `#sync` makes up for
 * within a minute. Undefined when nothing is.
 */
function faultOf(out: readonly OutEvent[]): string | undefined {
  let known = ''
  for (const [at, { kind, rev, since, atMs }] of out.entries()) {
    if (kind === 'commit' && rev <= known) return `the commit ${rev} came after ${known}`
    if (kind === 'sync' && rev < known) return `the #sync ${rev} came after ${known}`
    const isGap = kind === 'commit' && known !== '' && since !== known
    const isHealed = () => out.slice(at).some((each) => each.kind === 'sync' && each.atMs - atMs <= healMsMax)
    if (isGap && !isHealed()) return `${rev} follows ${since}, and ${known} was before it`
    known = rev
  }
  return undefined
}

/** Events of an account that came out, in brief. */
function told(reader: FirehoseReader, { did }: Account): string[] {
  return reader.frames
    .filter(({ body }) => body['did'] === did || body['repo'] === did)
    .map(({ t = '', body: { rev, status, active } }) => `${t} ${JSON.stringify(rev ?? status ?? active)}`)
}

// The simulator plays what hosts say late or never.
test('accounts that move between three PDSs while they write lose nothing', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const live = async (pds: number): Promise<Account> => {
    const account = await network.createAccount({ pds })
    const writeTwice = async (): Promise<void> => {
      await account.create(collection, sampleRecord(collection))
      await account.create(collection, sampleRecord(collection))
    }
    await writeTwice()
    // What an account that is still unknown wrote on a host that it has left by now does not come out.
    await reader.until(() => outOf(reader, account).length === 2)
    for (const step of [1, 2]) {
      await migrateAccount(account, network.pds[(pds + step) % 3] ?? assert.fail())
      await writeTwice()
    }
    return account
  }
  const accounts = await Promise.all([0, 1, 2].map(live))
  for (const account of accounts) {
    const latest = async () => (await answer('com.atproto.sync.getLatestCommit', { did: account.did }))['rev']
    const { rev } = (await (
      await fetch(`${account.pds.url}/xrpc/com.atproto.sync.getLatestCommit?did=${account.did}`)
    ).json()) as { rev: string } // as the lexicon has it
    await eventually(
      async () => (await latest()) === rev,
      () => told(reader, account),
    )
    assert.equal((await answer('com.atproto.sync.getRepoStatus', { did: account.did }))['active'], true)
    await reader.until(() => outOf(reader, account).at(-1)?.rev === rev)
    // Each write comes out, unless a #sync made up for it.
    await eventually(
      () => faultOf(outOf(reader, account)) === undefined,
      () => [faultOf(outOf(reader, account)), told(reader, account)],
    )
    const ops = reader.opsOf(account.did)
    const isComplete = outOf(reader, account).every(({ kind }) => kind === 'commit')
    const heard = ({ rkey }: { rkey: string }) => isComplete || ops.some((op) => op.rkey === rkey)
    assert.deepEqual(ops, account.journal.filter(heard))
  }
})
