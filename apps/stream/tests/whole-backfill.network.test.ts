/**
 * The backfill that the specification describes, step by step, by a client that knows the specification only: plan,
 * download, live. It is held against what accounts wrote on a real PDS, while the stream takes in, seals, compacts and
 * takes down.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EventKind } from '@tributary/protocol'
import {
  blockOfBytes,
  cidText,
  randomFrom,
  sampleRecord,
  startNetwork,
  testSeed,
  type Account,
  type Random,
} from '@tributary/testkit'
import {
  decodeBlockWithSecondDecoder,
  decodeWithSecondDecoder,
  type DecodedRow,
} from '@tributary/testkit/second-jss-decoder'
import { EventReader, type StreamMessage } from './event-reader.ts'
import { apiKey, operate, startTestStream, type TestStream } from './start-test-stream.ts'

const collections = ['org.impact.claim.activity', 'org.impact.claim.rights', 'org.impact.collection'] as const
const lastRkey = 'the-last-one'

interface Filter {
  kinds: EventKind[]
  collections: string[]
  dids: string[]
}

/** What archive and live stream both say of an event. */
interface Seen {
  seq: number
  kind: EventKind
  did: string
  /** Operation, collection, key and CID of a commit. */
  commit: string
}

interface Plan {
  plannedThroughSeq: number
  sealedTipSeq: number
  segments: { name: string; mode: 'segment' | 'blocks'; blocks?: { first: number; last: number }[] }[]
}

const kindOfRow: Record<number, EventKind> = { 4: 'identity', 5: 'account', 6: 'sync' }
const operationOfRow: Record<number, string> = { 1: 'create', 2: 'update', 3: 'delete', 7: 'create' }

function seenOfRow({ seq, kind, did, collection, rkey, payloadHex }: DecodedRow): Seen {
  const operation = operationOfRow[kind]
  const cid = payloadHex === '' ? '' : cidText(blockOfBytes(Buffer.from(payloadHex, 'hex')).cid)
  const commit = operation === undefined ? '' : `${operation} ${collection}/${rkey} ${cid}`
  return { seq, kind: kindOfRow[kind] ?? 'commit', did, commit }
}

function seenOfMessage(message: StreamMessage): Seen[] {
  const { $type, seq } = message
  if (seq === undefined) return []
  const { did, operation, collection, rkey, cid = '' } = message as Record<string, string | undefined> // by its lexicon
  const kind = $type.split('#')[1] as EventKind // by its lexicon
  const commit = kind === 'commit' ? `${operation} ${collection}/${rkey} ${cid}` : ''
  return [{ seq, kind, did: did ?? '', commit }]
}

/** The exact filter of section 13 of the format. */
function wants(filter: Filter, { kind, did, commit }: Seen): boolean {
  const collection = commit.split(' ')[1]?.split('/')[0] ?? ''
  const isOf = (pattern: string): boolean =>
    pattern.endsWith('.*') ? collection.startsWith(pattern.slice(0, -1)) : collection === pattern
  return (
    (filter.kinds.length === 0 || filter.kinds.includes(kind)) &&
    (filter.dids.length === 0 || filter.dids.includes(did)) &&
    (kind !== 'commit' || filter.collections.length === 0 || filter.collections.some(isOf))
  )
}

/** Follows section 4 of the specification. */
class SpecificationClient {
  readonly filter: Filter
  readonly seen: Seen[] = []
  readonly #stream: TestStream
  readonly #random: Random
  #cursor = 0

  constructor(stream: TestStream, filter: Filter, random: Random) {
    this.#stream = stream
    this.filter = filter
    this.#random = random
  }

  /** Steps 1 to 3. The first `sealedTipSeq` is the end. */
  async backfill(): Promise<void> {
    let endSeq: number | undefined
    do {
      const bounds = {
        ...(this.#cursor > 0 && { afterSeq: this.#cursor }),
        ...(endSeq && { beforeSeq: endSeq }),
      }
      const plan = await this.#plan(bounds)
      endSeq ??= plan.sealedTipSeq
      for (const segment of plan.segments)
        for (const row of await this.#download(segment)) this.#take(seenOfRow(row), endSeq)
      this.#cursor = plan.plannedThroughSeq
    } while (this.#cursor < endSeq)
  }

  /** Step 4, through connections that end at random and go on with an event that was seen, or the one after it. */
  async readLive(isLast: (seen: Seen) => boolean): Promise<void> {
    for (;;) {
      const again = this.#random.below(2)
      using reader = await EventReader.open(this.#stream.url, {
        ...this.filter,
        cursor: this.#cursor + 1 - again,
      })
      const ends = 1 + this.#random.below(40)
      const isOver = (): boolean => reader.messages.flatMap(seenOfMessage).some(isLast)
      await reader.until(() => isOver() || reader.messages.length >= ends)
      for (const seen of reader.messages.flatMap(seenOfMessage)) {
        this.#take(seen, Infinity)
        this.#cursor = Math.max(this.#cursor, seen.seq)
      }
      if (isOver()) return
    }
  }

  #take(seen: Seen, endSeq: number): void {
    const isNew = seen.seq > (this.seen.at(-1)?.seq ?? 0) && seen.seq > this.#cursor
    if (isNew && seen.seq <= endSeq && wants(this.filter, seen)) this.seen.push(seen)
  }

  async #plan(bounds: object): Promise<Plan> {
    const headers = { Authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ ...this.filter, ...bounds })
    const answer = await this.#stream.archive('planSnapshot', { method: 'POST', headers, body })
    assert.equal(answer.status, 200)
    return (await answer.json()) as Plan // by its lexicon
  }

  async #download({ name, mode, blocks = [] }: Plan['segments'][number]): Promise<DecodedRow[]> {
    const get = async (path: string): Promise<Buffer> => {
      const answer = await this.#stream.archive(path)
      assert.equal(answer.status, 200, path)
      return Buffer.from(await answer.arrayBuffer())
    }
    if (mode === 'segment') {
      const whole = await decodeWithSecondDecoder(await get(`getSegment?name=${name}`))
      return whole.blocks.flatMap(({ events }) => events)
    }
    const rows: DecodedRow[] = []
    for (const { first, last } of blocks)
      for (let i = first; i <= last; i++)
        rows.push(...decodeBlockWithSecondDecoder(await get(`getBlock?segment=${name}&blockIndex=${i}`)))
    return rows
  }
}

/** What must be there, and what may be: what later events supersede, and records of the account that was taken down. */
function check(seen: readonly Seen[], truth: readonly Seen[], down: string, what: string): void {
  const seqs = new Set(seen.map(({ seq }) => seq))
  const newest = new Map<string, number>()
  const keyOf = ({ did, commit }: Seen): string => `${did} ${commit.split(' ')[1]}`
  for (const each of truth)
    if (each.kind === 'commit' && !each.commit.startsWith('create')) newest.set(keyOf(each), each.seq)
  const mayBeGone = (each: Seen): boolean =>
    each.kind === 'commit' &&
    (each.did === down || (!each.commit.startsWith('delete') && (newest.get(keyOf(each)) ?? 0) > each.seq))
  assert.deepEqual(
    seen,
    truth.filter((each) => seqs.has(each.seq) || !mayBeGone(each)),
    what,
  )
}

/** Creates, changes and deletes records, a few keys again and again. */
class Writer {
  readonly account: Account
  readonly #random: Random
  readonly #there = new Set<string>()
  #written = 0

  constructor(account: Account, random: Random) {
    this.account = account
    this.#random = random
  }

  async write(count: number): Promise<void> {
    for (let n = 0; n < count; n++) {
      const [nsid, rkey] = [this.#random.pick(collections), `r${this.#random.below(6)}`]
      const key = `${nsid}/${rkey}`
      const record = sampleRecord(nsid, { note: `${this.account.handle} ${this.#written++}` })
      if (!this.#there.has(key)) {
        this.#there.add(key)
        await this.account.create(nsid, record, rkey)
      } else if (this.#random.next() < 0.4) {
        this.#there.delete(key)
        await this.account.delete(nsid, rkey)
      } else await this.account.put(nsid, rkey, record)
    }
  }
}

/** Every combination of kinds, collections and DIDs that may be asked for. */
function filtersOf(dids: readonly string[]): Filter[] {
  const kinds: EventKind[][] = [[], ['commit'], ['commit', 'account'], ['identity', 'account', 'sync']]
  const patterns = [[], [collections[0]], ['org.impact.claim.*'], [collections[0], collections[2]]]
  const accounts = [[], dids.slice(0, 1), dids.slice(0, 2)]
  return kinds
    .flatMap((kind) =>
      patterns.flatMap((pattern) =>
        accounts.map((some) => ({ kinds: kind, collections: pattern, dids: some })),
      ),
    )
    .filter(
      ({ kinds, collections }) => collections.length === 0 || kinds.length === 0 || kinds.includes('commit'),
    )
}

test('archive and live stream together are what was written, for every filter, while the archive changes', async () => {
  const random = randomFrom(testSeed())
  await using network = await startNetwork({ pds: 1 })
  const pds = network.pds[0] ?? assert.fail()
  await using stream = await startTestStream({
    relayUrl: pds.url.replace('http', 'ws'),
    plcUrl: network.plcUrl,
    allowedPrivateHosts: ['localhost'],
    compactionHours: 0,
  })
  const writers: Writer[] = []
  for (let n = 0; n < 4; n++) writers.push(new Writer(await network.createAccount(), random))
  const [first, , , down] = writers.map(({ account }) => account)
  assert.ok(first && down)
  using live = await EventReader.open(stream.url, { cursor: 0 })
  const truth = (): Seen[] => live.messages.flatMap(seenOfMessage)

  /** Writes, and seals in between, so that there are many segments. */
  const writeAndSeal = async (): Promise<void> => {
    for (let round = 0; round < 3; round++) {
      await Promise.all(writers.map((writer) => writer.write(4)))
      await stream.seal()
    }
  }
  await writeAndSeal()
  const clients = filtersOf(writers.map(({ account }) => account.did)).map(
    (filter) => new SpecificationClient(stream, filter, random),
  )
  assert.ok(clients.length >= 24)
  await operate(stream, 'compact', {})
  const writing = writeAndSeal()
  const half = clients.length / 2
  for (const client of clients.slice(0, half)) await client.backfill()
  await writing
  await pds.takedown(down.did)
  await operate(stream, 'compact', {})
  const more = Promise.all(writers.filter(({ account }) => account !== down).map((writer) => writer.write(8)))
  for (const client of clients.slice(half)) await client.backfill()
  await more
  // Nothing that comes after these supersedes them, so every filter ends with one of them.
  for (const { account } of writers) {
    if (account === down) continue
    for (const nsid of collections) await account.create(nsid, sampleRecord(nsid, { note: 'last' }), lastRkey)
  }
  const identitiesOf = (did: string): Seen[] =>
    truth().filter((each) => each.did === did && each.kind === 'identity')
  const before = identitiesOf(first.did).length
  await first.updateHandle(`renamed-writer.${first.handle.split('.').slice(1).join('.')}`)
  // Events of different accounts have no order, so the new handle may come before the last records of the others.
  const lastRecords = (): Seen[] => truth().filter(({ commit }) => commit.includes(`/${lastRkey} `))
  const lastRecordCount = (writers.length - 1) * collections.length
  await live.until(() => identitiesOf(first.did).length > before && lastRecords().length === lastRecordCount)
  const lastSeq = live.seqs.at(-1) ?? 0
  for (const client of clients) {
    const wanted = truth().filter((each) => wants(client.filter, each))
    const last = wanted.at(-1)?.seq ?? assert.fail()
    await client.readLive(({ seq }) => seq === last)
    check(client.seen, wanted, down.did, JSON.stringify(client.filter))
  }
  for (const { account } of writers) {
    const commits = truth().flatMap(({ did, commit }) =>
      did === account.did && commit !== '' ? [commit] : [],
    )
    const journal = account.journal.map(
      ({ action, collection, rkey, cid = '' }) => `${action} ${collection}/${rkey} ${cid}`,
    )
    assert.deepEqual(commits, journal)
  }

  // A cursor at every edge of a block, and after it.
  await stream.seal()
  const edges = new Set<number>()
  const { segments } = (await (await stream.archive('listSegments')).json()) as {
    segments: { name: string }[]
  } // by its lexicon
  for (const { name } of segments) {
    const bytes = new Uint8Array(await (await stream.archive(`getSegment?name=${name}`)).arrayBuffer())
    const { blocks } = await decodeWithSecondDecoder(bytes)
    for (const { minSeq, maxSeq } of blocks) for (const seq of [minSeq, maxSeq, maxSeq + 1]) edges.add(seq)
  }
  assert.ok(edges.size > 12)
  for (const cursor of [...edges].filter((seq) => seq <= lastSeq)) {
    using reader = await EventReader.open(stream.url, { cursor })
    await reader.until(() => reader.seqs.at(-1) === lastSeq)
    const wanted = truth().filter(({ seq }) => seq >= cursor && seq <= lastSeq)
    check(reader.messages.flatMap(seenOfMessage), wanted, down.did, `from ${cursor}`)
  }
})
