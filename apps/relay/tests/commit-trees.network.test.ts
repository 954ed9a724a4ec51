/** Trees of commits: the odd ones that real hosts make pass, and a wrong one costs its account a `#sync`, at once. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { after, test } from 'node:test'
import { decode, type BytesWrapper, type CidLinkWrapper } from '@atcute/cbor'
import {
  cidKey,
  decodeCar,
  eventually,
  startNetwork,
  startScriptedHost,
  type EventBody,
  type ScriptedAccount,
  type Write,
} from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay } from './start-test-relay.ts'

const network = await startNetwork()
const host = await startScriptedHost({ plcUrl: network.plcUrl })
const elsewhere = await startScriptedHost({ plcUrl: network.plcUrl, address: '127.0.0.5' })
const relay = await startTestRelay({
  plcUrl: network.plcUrl,
  sources: [host.host, elsewhere.host, ...network.pds.map((pds) => pds.host)],
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await host.stop()
  await elsewhere.stop()
  await network.stop()
})
const collection = 'org.impact.collection'

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

const syncsOf = (reader: FirehoseReader, { did }: ScriptedAccount) =>
  reader.frames.filter(({ t, body }) => t === '#sync' && body['did'] === did)

test('a commit that is refused for its tree makes its account whole at once, with no further event', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  const other = await host.createAccount()
  account.create(collection, { n: 1 })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  const refused = await relay.refused('invalid-mst')
  host.emitHostile('not-inverting', account, other)
  await reader.until(() => syncsOf(reader, account).length === 1)
  assert.equal(await relay.refused('invalid-mst'), refused + 1)
  assert.equal(syncsOf(reader, account)[0]?.body['rev'], account.rev)
})

test('so does the first commit of an account at its new host', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await host.createAccount()
  const other = await elsewhere.createAccount()
  account.create(collection, { n: 1 })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  await account.moveTo(elsewhere)
  const refused = await relay.refused('invalid-mst')
  elsewhere.emitHostile('not-inverting', account, other)
  await eventually(async () => (await relay.refused('invalid-mst')) > refused)
  await reader.until(() => syncsOf(reader, account).length === 1)
})
