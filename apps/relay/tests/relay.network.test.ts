import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { after, test } from 'node:test'
import { ComAtprotoSyncSubscribeRepos } from '@atcute/atproto'
import { decode, type BytesWrapper, type CidLinkWrapper } from '@atcute/cbor'
import { FirehoseSubscription } from '@atcute/firehose'
import { IdResolver } from '@atproto/identity'
import { Firehose as SyncFirehose, MemoryRunner } from '@atproto/sync'
import { Firehose as SkywareFirehose } from '@skyware/firehose'
import type { Did } from '@tributary/protocol'
import {
  cidKey,
  decodeCar,
  eventually,
  inTime,
  migrateAccount,
  rotateSigningKey,
  sampleCollections,
  sampleRecord,
  sampleRkey,
  startNetwork,
  type Account,
  type EventBody,
  type Write,
} from '@tributary/testkit'
import { loadLexicons } from '@tributary/xrpc'
import { FirehoseReader } from './firehose-reader.ts'
import { operate } from './operator-client.ts'
import { startTestRelay } from './start-test-relay.ts'

const network = await startNetwork({ pds: 3 })
const hosts = network.pds.map(({ host }) => host)
const collection = 'org.impact.collection'
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

test('unmodified clients see the same operations as ours', async () => {
  const account = await network.createAccount({ pds: 0 })
  const records = 5
  const seen: Record<string, string[]> = { ours: [], sync: [], skyware: [], atcute: [] }
  const service = relay.url.replace('http', 'ws')
  const done = {
    sync: Promise.withResolvers<void>(),
    skyware: Promise.withResolvers<void>(),
    atcute: Promise.withResolvers<void>(),
  }
  const note = (client: keyof typeof done, path: string): void => {
    if (seen[client]?.push(path) === records) done[client].resolve()
  }
  const sync = new SyncFirehose({
    service,
    idResolver: new IdResolver({ plcUrl: network.plcUrl, fetch }),
    runner: new MemoryRunner({ startCursor: 0 }),
    handleEvent(event) {
      if (event.event === 'create' && event.did === account.did)
        note('sync', `${event.collection}/${event.rkey} ${event.cid.toString()}`)
    },
    onError: done.sync.reject,
  })
  void sync.start()
  const skyware = new SkywareFirehose({ relay: service, cursor: '0' })
  skyware.on('commit', (commit) => {
    if (commit.repo !== account.did) return
    for (const op of commit.ops) if (op.action === 'create') note('skyware', `${op.path} ${op.cid}`)
  })
  skyware.start()
  const atcute = new FirehoseSubscription({
    service,
    nsid: ComAtprotoSyncSubscribeRepos.mainSchema,
    params: { cursor: 0 },
  })
  const atcuteDone = (async () => {
    for await (const message of atcute) {
      if (!('ops' in message)) continue
      if (message.repo !== account.did) continue
      for (const op of message.ops) note('atcute', `${op.path} ${op.cid?.$link}`)
      if (seen['atcute']?.length === records) return
    }
  })()
  using reader = new FirehoseReader(relay.url, 0)
  for (let i = 0; i < records; i++)
    await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === records)
  await inTime(Promise.all([done.sync.promise, done.skyware.promise, atcuteDone]), () => seen)
  skyware.close()
  await sync.destroy()
  const ours = reader.opsOf(account.did).map(({ collection, rkey, cid }) => `${collection}/${rkey} ${cid}`)
  assert.deepEqual({ ...seen, ours }, { ours, sync: ours, skyware: ours, atcute: ours })
})

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

test('the strictest client accepts records, identities, keys, takedowns and deletion of an account', async () => {
  const account = await network.createAccount({ pds: 0 })
  const seen: string[] = []
  const errors: Error[] = []
  const [pds] = network.pds
  assert.ok(pds)
  const did = account.did as Did // of a real PDS
  const isSeen = (what: string, behind?: string): Promise<void> =>
    eventually(
      () => seen.includes(behind ?? what) && seen.lastIndexOf(what) > seen.indexOf(behind ?? ''),
      () => ({ seen, errors }),
    )
  const sync = new SyncFirehose({
    service: relay.url.replace('http', 'ws'),
    idResolver: new IdResolver({ plcUrl: network.plcUrl, fetch }),
    runner: new MemoryRunner({ startCursor: 0 }),
    handleEvent(event) {
      if (event.did !== account.did) return
      if (event.event === 'account') seen.push(`account ${event.status ?? 'active'}`)
      else if (event.event === 'identity' || event.event === 'sync') seen.push(event.event)
      else seen.push(`${event.event} ${event.collection}`)
    },
    onError: (error) => errors.push(error),
  })
  void sync.start()
  const { uri } = await account.create(collection, sampleRecord(collection))
  const rkey = uri.slice(uri.lastIndexOf('/') + 1)
  await account.put(collection, rkey, { ...sampleRecord(collection), createdAt: new Date(0).toISOString() })
  await account.delete(collection, rkey)
  await account.updateHandle(account.handle.replace(/^./, 'y'))
  await account.deactivate()
  await account.activate()
  // It checks what came before with the key of before.
  await isSeen('account active', 'account deactivated')
  await rotateSigningKey(account)
  await account.create('com.example.signed', { with: 'a new key' })
  // A takedown hides also what has not been delivered yet.
  await isSeen('create com.example.signed')
  await pds.takedown(account.did)
  await isSeen('account takendown')
  await pds.takedown(account.did, false)
  await isSeen('account active', 'account takendown')
  await relay.accounts.setLocalStatus(did, 'suspended')
  await account.create('com.example.unheard', {})
  await eventually(async () => (await relay.refused('account-excluded')) > 0)
  await relay.accounts.setLocalStatus(did, undefined)
  await isSeen('sync', 'account suspended')
  await account.create('com.example.last', { text: 'x' })
  await isSeen('create com.example.last')
  await pds.deleteAccount(did)
  await isSeen('account deleted')
  await sync.destroy()
  assert.deepEqual(errors, [])
  const wanted = [
    `create ${collection}`,
    `update ${collection}`,
    `delete ${collection}`,
    'identity',
    'account deactivated',
    'account active',
    'create com.example.signed',
    'account takendown',
    'account active',
    'account suspended',
    'account active',
    'sync',
    'create com.example.last',
    'account deleted',
  ]
  let at = -1
  for (const each of wanted) assert.ok((at = seen.indexOf(each, at + 1)) >= 0, `${each} in ${seen.join()}`)
})

test('a handle change, deactivation, reactivation, takedown and deletion pass, and the state follows', async () => {
  const account = await network.createAccount({ pds: 1 })
  const pds = account.pds
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  using reader = new FirehoseReader(relay.url, 0)
  const handle = account.handle.replace(/^./, 'z')
  await account.updateHandle(handle)
  await account.deactivate()
  await account.activate()
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === 2)
  assert.equal((await answer('com.atproto.sync.getRepoStatus', { did: account.did }))['active'], true)
  await pds.takedown(account.did)
  const statuses = () =>
    reader.frames
      .filter(({ t, body }) => t === '#account' && body['did'] === account.did)
      .map(({ body }) => body['status'] ?? 'active')
  await reader.until(() => statuses().length === 4)
  assert.equal(
    (await answer('com.atproto.sync.getLatestCommit', { did: account.did }))['error'],
    'RepoTakendown',
  )
  await pds.takedown(account.did, false)
  // A PDS forgets all earlier events of an account that it deletes, also those that it has not sent yet.
  await reader.until(() => statuses().length === 5)
  await pds.deleteAccount(account.did)
  await reader.until(() => statuses().length === 6)
  assert.deepEqual(statuses(), ['active', 'deactivated', 'active', 'takendown', 'active', 'deleted'])
  const handles = reader.frames
    .filter(({ t, body }) => t === '#identity' && body['did'] === account.did)
    .map(({ body }) => body['handle'])
  assert.ok(handles.includes(handle))
  const { active, status } = await answer('com.atproto.sync.getRepoStatus', { did: account.did })
  assert.deepEqual({ active, status }, { active: false, status: 'deleted' })
})

test('a PDS that was away is read on from where it was', async () => {
  const account = await network.createAccount({ pds: 1 })
  using reader = new FirehoseReader(relay.url, 0)
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === 1)
  await account.pds.stop()
  await account.pds.start()
  await account.create('org.impact.collection', sampleRecord('org.impact.collection'))
  await reader.until(() => reader.opsOf(account.did).length === 2)
  assert.deepEqual(reader.opsOf(account.did), account.journal)
})

/** A record key whose path belongs to this layer of a tree, and to no lower one. */
function rkeyOfLayer(layer: number, after = -1): string {
  for (let n = after + 1; ; n++) {
    const rkey = String(n)
    const zeros = hash('sha256', `${collection}/${rkey}`, 'hex')
    // Each layer is two more zero bits at the start.
    const bits = BigInt(`0x1${zeros}`).toString(2).slice(1)
    if (Math.floor(bits.indexOf('1') / 2) === layer) return rkey
  }
}

/** Whether the root of the tree that a commit leads to has no keys. */
function hasBareRoot(body: EventBody): boolean {
  const blocks = decodeCar((body['blocks'] as BytesWrapper).buf) // as the lexicon has it
  const read = (link: unknown): Record<string, unknown> => {
    const { bytes } = link as CidLinkWrapper // a link of a block
    return decode(blocks.get(cidKey(bytes.subarray(-36))) ?? assert.fail()) as Record<string, unknown> // a map
  }
  return (read(read(body['commit'])['data'])['e'] as unknown[]).length === 0 // the entries of a node
}

test('commits that replace all records of an account by others pass, also where they leave a root without keys', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await network.createAccount()
  const [low, lowSecond, one] = [rkeyOfLayer(0), rkeyOfLayer(0, 1000), rkeyOfLayer(1)]
  const [two, twoSecond, three] = [rkeyOfLayer(2), rkeyOfLayer(2, 1000), rkeyOfLayer(3)]
  const create = (rkey: string): Write => ({ action: 'create', collection, rkey, value: { title: rkey } })
  const remove = (rkey: string): Write => ({ action: 'delete', collection, rkey })
  const update = (rkey: string): Write => ({ action: 'update', collection, rkey, value: { title: 'new' } })
  const commits: Write[][] = [
    [create(three), create(two), create(low)],
    [remove(three), remove(low), remove(two), create(lowSecond)],
    [update(lowSecond)],
    [create(one)],
    [remove(lowSecond), remove(one), create(low)],
    [create(twoSecond), remove(low)],
  ]
  for (const writes of commits) await account.applyWrites(writes)
  await reader.until(() => reader.opsOf(account.did).length === account.journal.length)
  assert.deepEqual(reader.opsOf(account.did), account.journal)
  const own = reader.frames.filter(({ t, body }) => t === '#commit' && body['repo'] === account.did)
  assert.ok(own.some(({ body }) => hasBareRoot(body)))
  assert.equal(await relay.refused('invalid-mst'), 0)
})

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
