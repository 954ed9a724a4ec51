/** The clients of Jetstream v1 that people use, as they are published, read the stream at `/subscribe`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { JetstreamSubscription } from '@atcute/jetstream'
import { Jetstream } from '@skyware/jetstream'
import { eventually, type ScriptedAccount, startPlc, startScriptedHost } from '@tributary/testkit'
import { operate, startTestStream, type TestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'

/** What a test needs of a client. */
interface Client extends AsyncDisposable {
  /** Record keys of commits and kinds of other events, as they came. */
  readonly seen: string[]
  wantDids(dids: string[]): void
}

type Start = (url: string, cursor: number) => Client

/** Its cursor is a time, and so is the one with which it connects again. */
const startSkyware: Start = (url, cursor) => {
  const seen: string[] = []
  const client = new Jetstream({ endpoint: `${url}/subscribe`, cursor, wantedCollections: [follow] })
  client.on('commit', ({ commit }) => void seen.push(commit.rkey))
  client.on('account', ({ kind }) => void seen.push(kind))
  client.on('identity', ({ kind }) => void seen.push(kind))
  client.start()
  return {
    seen,
    wantDids: (wantedDids) => client.updateOptions({ wantedDids }),
    [Symbol.asyncDispose]: async () => client.close(),
  }
}

/** It says hello, and checks each event against its schema. */
const startAtcute: Start = (url, cursor) => {
  const seen: string[] = []
  const client = new JetstreamSubscription({
    url,
    cursor,
    wantedCollections: [follow],
    onError: (error) => assert.fail(String(error)),
  })
  const events = client[Symbol.asyncIterator]()
  const read = async (): Promise<void> => {
    for (let next = await events.next(); next.done !== true; next = await events.next())
      seen.push(next.value.kind === 'commit' ? next.value.commit.rkey : next.value.kind)
  }
  // What waits for the next event when the iterator ends waits for good.
  void read()
  return {
    seen,
    wantDids: (dids) => client.updateOptions({ wantedDids: dids as `did:plc:${string}`[] }), // of accounts
    [Symbol.asyncDispose]: async () => {
      await events.return?.()
    },
  }
}

interface Subscriber {
  id: number
  filter: { didCount: number; collections: string[] }
}

/** The one that is connected. */
async function subscriberOf(stream: TestStream): Promise<Subscriber | undefined> {
  const { body } = await operate(stream, 'listSubscribers')
  return (body['subscribers'] as Subscriber[])[0] // by its lexicon
}

for (const [name, start] of [
  ['@skyware/jetstream', startSkyware],
  ['@atcute/jetstream', startAtcute],
] as const)
  test(`${name} reads the past, live events, other accounts, and on after its connection ended`, async () => {
    await using plc = await startPlc()
    await using host = await startScriptedHost({ plcUrl: plc.url })
    await using stream = await startTestStream({ relayUrl: host.url.replace('http', 'ws'), plcUrl: plc.url })
    const cursor = Date.now() * 1000
    const [first, second] = [await host.createAccount(), await host.createAccount()]
    const create = (account: ScriptedAccount, rkey: string): unknown => account.create(follow, { rkey }, rkey)
    create(first, 'past')
    await eventually(async () => (await stream.metric('stream_head_seq')) === 7)
    await using client = start(stream.url.replace('http', 'ws'), cursor)
    await eventually(() => client.seen.includes('past'))
    create(first, 'live')
    await eventually(() => client.seen.includes('live'))
    assert.deepEqual(client.seen.toSorted(), ['account', 'account', 'identity', 'identity', 'live', 'past'])
    client.wantDids([second.did])
    await eventually(async () => (await subscriberOf(stream))?.filter.didCount === 1)
    create(first, 'not-wanted')
    create(second, 'wanted')
    await eventually(() => client.seen.includes('wanted'))
    const { id } = (await subscriberOf(stream)) ?? {}
    await operate(stream, 'disconnectSubscriber', { id })
    await eventually(async () => (await subscriberOf(stream))?.id !== id)
    create(first, 'not-wanted-either')
    create(second, 'after')
    await eventually(() => client.seen.includes('after'))
    // A time is inclusive, so that what came last comes once more.
    assert.deepEqual([...new Set(client.seen.slice(6))], ['wanted', 'after'])
  })
