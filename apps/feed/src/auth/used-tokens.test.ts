import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import Sqlite from 'better-sqlite3'
import type { Did } from '@tributary/protocol'
import { UsedTokens, type TokenVerdict } from './used-tokens.ts'

const bounds = { perIssuer: 200, perNetwork: 256, inAll: 1000 }

const directory = mkdtempSync(join(tmpdir(), 'used-tokens-'))
after(() => rmSync(directory, { recursive: true }))

const noonMs = Date.parse('2026-03-04T12:00:00Z')
const noonSeconds = noonMs / 1000
const alice = 'did:plc:alice' as Did // DID syntax
let files = 0

function newPath(): string {
  return join(directory, `${files++}.sqlite`)
}

/** Spends a token that lives for a minute from noon. */
function spend(
  store: UsedTokens,
  nonce: string,
  issuer = alice,
  expiresAt = noonSeconds + 60,
  network = '192.0.2.1',
): TokenVerdict {
  return store.spend({ issuer, nonce, expiresAt, network })
}

test('a nonce can be spent once by each issuer', () => {
  using store = new UsedTokens(newPath(), () => noonMs, bounds)
  assert.equal(spend(store, 'a'), 'spent')
  assert.equal(spend(store, 'a'), 'used')
  assert.equal(spend(store, 'a', 'did:plc:bob' as Did), 'spent') // DID syntax
})

test('a store that is opened again knows what was spent', () => {
  const path = newPath()
  {
    using store = new UsedTokens(path, () => noonMs, bounds)
    assert.equal(spend(store, 'a'), 'spent')
  }
  using store = new UsedTokens(path, () => noonMs, bounds)
  assert.equal(spend(store, 'a'), 'used')
})

test('two stores on one file share what was spent', () => {
  const path = newPath()
  using one = new UsedTokens(path, () => noonMs, bounds)
  using other = new UsedTokens(path, () => noonMs, bounds)
  assert.equal(spend(one, 'a'), 'spent')
  assert.equal(spend(other, 'a'), 'used')
})

test('an issuer is full at its bound of live tokens, and others are not', () => {
  const clock = { ms: noonMs }
  using store = new UsedTokens(newPath(), () => clock.ms, bounds)
  for (let i = 0; i < bounds.perIssuer; i++) assert.equal(spend(store, `n${i}`), 'spent')
  assert.equal(spend(store, 'one more'), 'full')
  assert.equal(spend(store, 'n0'), 'used')
  assert.equal(spend(store, 'n0', 'did:plc:bob' as Did), 'spent') // DID syntax
  clock.ms += 61_000
  assert.equal(spend(store, 'one more', alice, noonSeconds + 120), 'spent')
})

test('a network is full at its bound, however many issuers it names, and others are not', () => {
  const clock = { ms: noonMs }
  using store = new UsedTokens(newPath(), () => clock.ms, bounds)
  for (let i = 0; i < bounds.perNetwork; i++) {
    assert.equal(spend(store, `n${i}`, `did:plc:issuer${i % 9}` as Did), 'spent') // DID syntax
  }
  assert.equal(spend(store, 'n0', 'did:plc:newcomer' as Did), 'full') // DID syntax
  assert.equal(spend(store, 'n0', 'did:plc:issuer0' as Did), 'used') // DID syntax
  const other = spend(store, 'n0', 'did:plc:newcomer' as Did, noonSeconds + 60, '198.51.100.1') // DID syntax
  assert.equal(other, 'spent')
  clock.ms += 61_000
  assert.equal(spend(store, 'n0', 'did:plc:newcomer' as Did, noonSeconds + 120), 'spent') // DID syntax
})

test('networks that spend all they can leave room for another one', () => {
  const inAll = 64
  using store = new UsedTokens(newPath(), () => noonMs, { ...bounds, inAll })
  let count = 0
  const spendFrom = (network: string): TokenVerdict =>
    spend(store, 'n', `did:plc:issuer${count++}` as Did, noonSeconds + 60, network) // DID syntax
  const fill = (network: string): number => {
    for (let spent = 0; ; spent++) if (spendFrom(network) === 'full') return spent
  }
  assert.deepEqual(['192.0.2.1', '192.0.2.2', '192.0.2.3'].map(fill), [32, 16, 8])
  assert.equal(spendFrom('192.0.2.4'), 'spent')
})

test('an entry lives to the end of the second in which its token ends', () => {
  const clock = { ms: noonMs }
  using store = new UsedTokens(newPath(), () => clock.ms, bounds)
  assert.equal(spend(store, 'a', alice, noonSeconds), 'spent')
  clock.ms += 999
  assert.equal(spend(store, 'a', alice, noonSeconds), 'used')
  clock.ms += 1
  assert.equal(spend(store, 'a', alice, noonSeconds), 'expired')
})

test('a nonce is free again when its token has ended, although nothing has dropped it yet', () => {
  const clock = { ms: noonMs }
  using store = new UsedTokens(newPath(), () => clock.ms, bounds)
  assert.equal(spend(store, 'a'), 'spent')
  clock.ms += 60_999
  assert.equal(spend(store, 'a', alice, noonSeconds + 120), 'used')
  clock.ms += 1
  assert.equal(spend(store, 'a', alice, noonSeconds + 120), 'spent')
  assert.equal(spend(store, 'a', alice, noonSeconds + 120), 'used')
})

test('a clock that goes back brings no dropped token back, not even over a restart', () => {
  const clock = { ms: noonMs }
  const path = newPath()
  {
    using store = new UsedTokens(path, () => clock.ms, bounds)
    assert.equal(spend(store, 'a'), 'spent')
    clock.ms += 61_000
    assert.equal(spend(store, 'b', alice, noonSeconds + 120), 'spent', 'drops a')
    clock.ms -= 61_000
    assert.equal(spend(store, 'a'), 'expired')
  }
  using store = new UsedTokens(path, () => clock.ms, bounds)
  assert.equal(spend(store, 'a'), 'expired')
})

test('a clock that was far ahead once refuses no token after a restart', () => {
  const clock = { ms: noonMs + 86_400_000 }
  const path = newPath()
  {
    using store = new UsedTokens(path, () => clock.ms, bounds)
    assert.equal(spend(store, 'a', alice, noonSeconds + 86_460), 'spent')
    clock.ms = noonMs
    assert.equal(spend(store, 'b'), 'expired')
  }
  using store = new UsedTokens(path, () => clock.ms, bounds)
  assert.equal(spend(store, 'b'), 'spent')
})

test('a file of an earlier version is read, and its tokens count for no network', () => {
  const path = newPath()
  const db = new Sqlite(path)
  db.exec(`create table usedTokens (
    issuer text not null, nonce text not null, goneAtMs integer not null, primary key (issuer, nonce)
  ) without rowid`)
  db.prepare('insert into usedTokens values (?, ?, ?)').run(alice, 'a', noonMs + 61_000)
  db.close()
  for (const nonce of ['b', 'c']) {
    using store = new UsedTokens(path, () => noonMs, { ...bounds, perNetwork: 2 })
    assert.deepEqual([spend(store, 'a'), spend(store, nonce)], ['used', 'spent'])
  }
  using store = new UsedTokens(path, () => noonMs, { ...bounds, perNetwork: 2 })
  assert.equal(spend(store, 'd'), 'full')
})

test('a spent token is on disk when it is said to be spent, whatever happens to the machine', (t) => {
  const pragma = t.mock.method(Sqlite.prototype, 'pragma')
  using store = new UsedTokens(newPath(), () => noonMs, bounds)
  assert.equal(spend(store, 'a'), 'spent')
  const db = pragma.mock.calls[0]?.this as Sqlite.Database | undefined // the one that it opened
  assert.equal(db?.pragma('synchronous', { simple: true }), 2, 'FULL')
})

test('of two that spend the same tokens at the same time exactly one succeeds with each', async () => {
  const path = newPath()
  const gate = new Int32Array(new SharedArrayBuffer(4))
  const spendAll = `
    const { parentPort, workerData: { url, path, gate } } = require('node:worker_threads')
    import(url).then(({ UsedTokens }) => {
      const store = new UsedTokens(path, () => ${noonMs}, ${JSON.stringify(bounds)})
      Atomics.add(gate, 0, 1)
      while (Atomics.load(gate, 0) < 2);
      const verdicts = []
      for (let n = 0; n < 200; n++)
        verdicts.push(store.spend({ issuer: '${alice}', nonce: 'n' + n, expiresAt: ${noonSeconds + 60}, network: 'x' }))
      store[Symbol.dispose]()
      parentPort.postMessage(verdicts)
    })`
  const url = new URL('./used-tokens.ts', import.meta.url).href
  const spending = [1, 2].map(
    () =>
      new Promise<TokenVerdict[]>((resolve, reject) => {
        const worker = new Worker(spendAll, { eval: true, workerData: { url, path, gate } })
        worker.once('message', resolve)
        worker.once('error', reject)
      }),
  )
  const [one = [], other = []] = await Promise.all(spending)
  assert.equal(one.length, 200)
  for (const [n, verdict] of one.entries())
    assert.deepEqual(new Set([verdict, other[n]]), new Set(['spent', 'used']), `token ${n}`)
})
