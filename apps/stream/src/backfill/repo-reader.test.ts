import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { parseDidKey, type SigningKey } from '@tributary/repo-verify'
import { encodeCar, SignedRepo, Signer } from '@tributary/testkit'
import { RepoReader } from './repo-reader.ts'
import type { RepoCheck } from './repo-thread-messages.ts'

const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' as Did // as it must look
const signer = Signer.fromSeed('repo-reader')
const collection = 'org.impact.collection'

const keyOf = (of: Signer): SigningKey => parseDidKey(of.did()) ?? assert.fail()
const check: RepoCheck = {
  did,
  key: keyOf(signer),
  bytesMax: 64 * 1024 * 1024,
  collections: new Set([collection]),
}

/** The CAR of a repository of so many records of a wanted collection, and one of another. */
function carOf(count: number, textBytes = 10): Uint8Array {
  const repo = new SignedRepo(did, signer)
  const other = { action: 'create', collection: 'com.example.other', rkey: 'a', record: {} } as const
  repo.commit([
    other,
    ...Array.from({ length: count }, (_, n) => {
      const rkey = String(n).padStart(6, '0')
      return { action: 'create', collection, rkey, record: { n, text: 'x'.repeat(textBytes) } } as const
    }),
  ])
  return encodeCar(repo.head.cid, repo.blocks())
}

for (const [what, count, textBytes] of [
  ['more records than one answer of the thread gives', 1201, 10],
  ['more bytes than one answer of the thread gives', 7, 400_000],
  ['no records', 0, 0],
] as const) {
  test(`a repository of ${what} is read whole, in order, whatever the pieces in which it came`, async (t) => {
    const reader = new RepoReader()
    t.after(() => reader.close())
    using repo = reader.open()
    const car = carOf(count, textBytes)
    for (let at = 0, length = 1; at < car.length; at += length, length = (length * 7) % 500_009)
      repo.add(car.subarray(at, at + length))
    const read = await repo.verify(check)
    assert.ok(read.ok)
    assert.equal(read.records.length, count)
    for (const [n, { rkey, record }] of read.records.entries()) {
      assert.equal(Number(rkey), n)
      assert.ok(Buffer.from(record).includes('x'.repeat(textBytes)) && record.length < textBytes + 100)
    }
  })
}

test('a repository that was refused for its key is verified again with another one', async (t) => {
  const reader = new RepoReader()
  t.after(() => reader.close())
  using repo = reader.open()
  using another = reader.open()
  repo.add(carOf(3))
  another.add(carOf(5))
  const refused = await repo.verify({ ...check, key: keyOf(Signer.fromSeed('another')) })
  assert.deepEqual([refused.ok, !refused.ok && refused.reason], [false, 'bad-signature'])
  const reads = await Promise.all([repo.verify(check), another.verify(check)])
  assert.deepEqual(
    reads.map((read) => read.ok && read.records.length),
    [3, 5],
  )
})

test('what is not a repository, or is larger than it may be, is refused', async (t) => {
  const reader = new RepoReader()
  t.after(() => reader.close())
  using none = reader.open()
  assert.equal((await none.verify(check)).ok, false)
  using large = reader.open()
  large.add(carOf(100))
  assert.equal((await large.verify({ ...check, bytesMax: 1000 })).ok, false)
})

test('a reader that is closed answers nothing more, and can be used again', async () => {
  const reader = new RepoReader()
  {
    using repo = reader.open()
    repo.add(carOf(1))
    const read = repo.verify(check)
    await Promise.all([assert.rejects(read, /the stream stops/), reader.close()])
    await assert.rejects(repo.verify(check), /the stream stops/)
  }
  using repo = reader.open()
  repo.add(carOf(1))
  assert.equal((await repo.verify(check)).ok, true)
  await reader.close()
})
