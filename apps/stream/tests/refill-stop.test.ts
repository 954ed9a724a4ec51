/** A stop in the middle of a repository that is written gives no row twice and leaves none out. */
import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { decode } from '@atcute/cbor'
import type { RepoRecord } from '@tributary/repo-verify'
import { rowKind } from '@tributary/segment'
import { commitBody, startPlc, startScriptedHost, type ScriptedAccount } from '@tributary/testkit'
import type { RepoContents } from '../src/ingest/repo-refill.ts'
import { contentsOf } from './contents-of.ts'
import { startIngest, type TestIngest } from './start-ingest.ts'

const follow = 'app.attested.graph.follow'
const records = 1500

const rkey = (n: number): string => String(n).padStart(4, '0')
const options = { mayReplace: true, onWhole: () => {} }

/**
 * Copies the directory of an ingest, as a kill would leave it, once some rows of a refill are durable, and ends it.
 * @returns how many those were.
 */
async function killWithin(
  ingest: TestIngest,
  contents: RepoContents,
  from: string,
  to: string,
): Promise<number> {
  const before = ingest.rows.length
  void ingest.ingest.refill(contents, options)
  await ingest.until(() => ingest.rows.length > before)
  cpSync(from, to, { recursive: true })
  return ingest.rows.length - before
}

function create(account: ScriptedAccount, from = 0): void {
  for (let at = from; at < records; at += 100)
    account.commit(
      Array.from({ length: Math.min(100, records - at) }, (_, n) => ({
        action: 'create' as const,
        collection: follow,
        rkey: rkey(at + n),
        record: { n: at + n },
      })),
    )
}

const all = Array.from({ length: records }, (_, n) => rkey(n))

for (const saveMs of [1, 2 ** 31 - 1]) {
  const saved = saveMs === 1 ? 'with its states saved all the time' : 'with no state saved'
  test(`a repository that was half written is written to its end after a kill, ${saved}`, async () => {
    await using plc = await startPlc()
    await using host = await startScriptedHost({ plcUrl: plc.url })
    await using directory = await mkdtempDisposable(join(tmpdir(), 'refill-'))
    const [from, to] = [join(directory.path, 'one'), join(directory.path, 'two')]
    const account = await host.createAccount({ announce: false })
    create(account)
    const contents = contentsOf(account)
    const settings = { relayUrl: host.url, plcUrl: plc.url, saveMs }
    {
      await using ingest = await startIngest({ directory: from, ...settings })
      const written = await killWithin(ingest, contents, from, to)
      assert.ok(written < records, `${written} rows were written`)
    }
    await using again = await startIngest({ directory: to, ...settings })
    const [known] = [again.rows.length]
    // What was on its way to the disk is there too: on a slow one that may be all of them.
    assert.ok(known > 0)
    assert.deepEqual(await again.ingest.refill(contents, options), { is: 'whole', rows: records - known })
    await again.until(() => again.rows.length === records)
    assert.deepEqual(
      again.rows.map((row) => [row.kind, row.rkey]),
      all.map((each) => [1, each]),
    )
    const [state, archived] = [again.states.get(account.did), again.states.archived.of(account.did)]
    assert.deepEqual([state?.rev, state?.completeRevision, archived.size], [contents.rev, 1, 0])
  })
}

test('a marked repository that was half written goes on after its marker, unless it has changed since', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'refill-'))
  const [from, to, third] = ['one', 'two', 'three'].map((name) => join(directory.path, name)) as [
    string,
    string,
    string,
  ] // of three
  const account = await host.createAccount({ announce: false })
  account.create(follow, {}, 'live')
  create(account)
  account.delete(follow, 'live')
  const settings = { relayUrl: host.url, plcUrl: plc.url }
  const contents = contentsOf(account)
  {
    await using ingest = await startIngest({ directory: from, ...settings })
    await ingest.until(() => ingest.rows.length === 2)
    await killWithin(ingest, contents, from, to)
  }
  cpSync(to, third, { recursive: true })
  const kinds = ({ rows }: TestIngest): number[] => rows.slice(2).map(({ kind }) => kind)
  {
    await using again = await startIngest({ directory: to, ...settings })
    const outcome = await again.ingest.refill(contents, options)
    assert.equal(outcome.is, 'whole')
    await again.until(() => again.rows.length === 2 + 1 + records)
    assert.deepEqual(kinds(again), [6, ...all.map(() => 7)])
    assert.equal(again.states.get(account.did)?.needsRefetch, false)
    // Live events that the repository had already give no rows.
    assert.equal(again.rows.filter(({ rkey }) => rkey === 'live').length, 2)
  }
  await using changed = await startIngest({ directory: third, ...settings })
  const known = changed.rows.length
  account.commit([{ action: 'update', collection: follow, rkey: rkey(0), record: { n: 'new' } }])
  await changed.ingest.refill(contentsOf(account), options)
  await changed.until(() => changed.rows.length === known + 1 + records)
  assert.deepEqual(
    changed.rows.slice(known).map(({ kind, rkey }) => [kind, rkey]),
    [[6, ''], ...all.map((each) => [7, each])],
  )
})

test('what a host gave that is older than live events is not written, and what is newer waits for them', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'refill-'))
  await using ingest = await startIngest({ directory: directory.path, relayUrl: host.url, plcUrl: plc.url })
  const account = await host.createAccount()
  const empty = contentsOf(account)
  account.create(follow, {}, 'a')
  await ingest.until(() => ingest.rows.length === 4)
  assert.deepEqual(await ingest.ingest.refill(empty, options), { is: 'complete' })
  account.commit([{ action: 'create', collection: follow, rkey: 'b', record: {} }])
  const newer = contentsOf(account)
  assert.deepEqual(await ingest.ingest.refill(newer, { ...options, mayReplace: false }), {
    is: 'live-behind',
  })
  ingest.states.mark(account.did)
  assert.deepEqual(await ingest.ingest.refill(empty, options), { is: 'contents-behind' })
  // Of fewer collections than live events have brought since their first.
  const fewer = { ...newer, watchRevision: 0 }
  assert.deepEqual(await ingest.ingest.refill(fewer, options), { is: 'contents-behind' })
  assert.deepEqual(await ingest.ingest.refill(newer, options), { is: 'whole', rows: 2 })
  const records: RepoRecord[] = []
  assert.deepEqual(await ingest.ingest.refill({ ...newer, records }, { ...options, mayReplace: false }), {
    is: 'complete',
  })
})

for (const isKnown of [false, true]) {
  const title = isKnown ? 'a marked repository' : 'a repository that was not known'
  test(`commits that ${title} had already give no rows when they come after a kill within its refill`, async () => {
    await using plc = await startPlc()
    await using host = await startScriptedHost({ plcUrl: plc.url })
    await using directory = await mkdtempDisposable(join(tmpdir(), 'refill-'))
    const [from, to] = [join(directory.path, 'one'), join(directory.path, 'two')]
    const account = await host.createAccount({ announce: false })
    const settings = { relayUrl: host.url, plcUrl: plc.url }
    const before = isKnown ? 1 : 0
    if (isKnown) account.create(follow, {}, rkey(0))
    create(account, before)
    const late = account.commit([
      { action: 'update', collection: follow, rkey: rkey(0), record: { n: 'late' } },
    ])
    const newest = account.commit([
      { action: 'update', collection: follow, rkey: rkey(0), record: { n: 'newest' } },
    ])
    {
      await using ingest = await startIngest({ directory: from, ...settings })
      await ingest.until(() => ingest.rows.length === before)
      if (isKnown) ingest.states.mark(account.did)
      await killWithin(ingest, contentsOf(account), from, to)
    }
    await using again = await startIngest({ directory: to, ...settings })
    for (const commit of [late, newest]) host.emit('#commit', commitBody(commit))
    account.create(follow, {}, 'live')
    await again.until(() => again.rows.some((row) => row.rkey === 'live'))
    const updates = again.rows.filter((row) => row.rev === late.rev || row.kind === rowKind.update)
    assert.deepEqual(updates, [], 'they are older than rows of the refill')
    assert.equal((await again.ingest.refill(contentsOf(account), options)).is, 'whole')
    const last = again.rows.findLast((row) => row.rkey === rkey(0))
    await again.until(() => again.states.get(account.did)?.backfillRev === '')
    assert.deepEqual(decode(last?.payload ?? new Uint8Array()), { $type: follow, n: 'newest' })
    assert.equal(again.states.get(account.did)?.needsRefetch, false)
  })
}

test('a record that is deleted between a kill and the refill after it is taken back', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'refill-'))
  const [from, to] = [join(directory.path, 'one'), join(directory.path, 'two')]
  const account = await host.createAccount({ announce: false })
  create(account)
  const settings = { relayUrl: host.url, plcUrl: plc.url }
  {
    await using ingest = await startIngest({ directory: from, ...settings })
    await killWithin(ingest, contentsOf(account), from, to)
  }
  account.commit([{ action: 'delete', collection: follow, rkey: rkey(0) }])
  await using again = await startIngest({ directory: to, ...settings })
  const known = again.rows.length
  assert.deepEqual(await again.ingest.refill(contentsOf(account), options), {
    is: 'whole',
    rows: records - 1,
  })
  await again.until(() => again.rows.length === known + records)
  assert.deepEqual(
    again.rows.slice(known).map((row) => [row.kind, row.rkey]),
    [[rowKind.sync, ''], ...all.slice(1).map((each) => [rowKind.createResync, each])],
  )
})

test('what is lost after a repository was asked for leaves its mark', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'refill-'))
  await using ingest = await startIngest({ directory: directory.path, relayUrl: host.url, plcUrl: plc.url })
  const account = await host.createAccount()
  account.create(follow, {}, 'a')
  await ingest.until(() => ingest.rows.length === 4)
  const { states } = ingest
  states.mark(account.did)
  const marksBefore = states.marks
  const contents = { ...contentsOf(account), marksBefore }
  states.mark(account.did)
  assert.equal((await ingest.ingest.refill(contents, options)).is, 'whole')
  assert.equal(states.get(account.did)?.needsRefetch, true)
  const newer = { ...contents, marksBefore: states.marks }
  assert.equal((await ingest.ingest.refill(newer, options)).is, 'whole')
  assert.equal(states.get(account.did)?.needsRefetch, false)
})

test('a record of a commit that a kill left, and that is deleted by then, is taken back', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'refill-'))
  const [from, to] = [join(directory.path, 'one'), join(directory.path, 'two')]
  const account = await host.createAccount({ announce: false })
  account.create(follow, {}, 'a')
  {
    await using ingest = await startIngest({ directory: from, relayUrl: host.url, plcUrl: plc.url })
    await ingest.until(() => ingest.rows.length === 1)
    cpSync(from, to, { recursive: true })
  }
  account.commit([{ action: 'delete', collection: follow, rkey: 'a' }])
  const relayUrl = host.url
  await host.stop()
  await using again = await startIngest({ directory: to, relayUrl, plcUrl: plc.url })
  assert.deepEqual(await again.ingest.refill(contentsOf(account), options), { is: 'whole', rows: 0 })
  await again.until(() => again.rows.length === 2)
  assert.deepEqual(
    again.rows.map(({ kind }) => kind),
    [rowKind.create, rowKind.sync],
  )
})

test('a repository that was read before its account was taken down is not written, and is read again when it is back', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'refill-'))
  await using ingest = await startIngest({ directory: directory.path, relayUrl: host.url, plcUrl: plc.url })
  const account = await host.createAccount({ announce: false })
  account.commit([{ action: 'create', collection: follow, rkey: 'a', record: {} }])
  const contents = contentsOf(account)
  account.setStatus('takendown')
  await ingest.until(() => ingest.rows.length === 1)
  assert.deepEqual(await ingest.ingest.refill(contents, options), { is: 'hidden' })
  account.setStatus(undefined)
  await ingest.until(() => ingest.rows.length > 1)
  assert.deepEqual(
    ingest.rows.map(({ kind }) => kind),
    [rowKind.account, rowKind.account],
  )
  assert.equal(ingest.states.get(account.did)?.needsRefetch, true)
  assert.equal((await ingest.ingest.refill(contents, options)).is, 'whole')
})

for (const isMarked of [false, true]) {
  const title = isMarked ? 'a marked repository' : 'a repository that was not known'
  test(`${title} that was half written when its account was taken down is written as a whole when it is back`, async () => {
    await using plc = await startPlc()
    await using host = await startScriptedHost({ plcUrl: plc.url })
    await using directory = await mkdtempDisposable(join(tmpdir(), 'refill-'))
    const [from, to] = [join(directory.path, 'one'), join(directory.path, 'two')]
    const account = await host.createAccount({ announce: false })
    const settings = { relayUrl: host.url, plcUrl: plc.url, saveMs: 1 }
    if (isMarked) account.create(follow, {}, rkey(0))
    create(account, isMarked ? 1 : 0)
    const contents = contentsOf(account)
    {
      await using ingest = await startIngest({ directory: from, ...settings })
      await ingest.until(() => ingest.rows.length === (isMarked ? 1 : 0))
      if (isMarked) ingest.states.mark(account.did)
      await killWithin(ingest, contents, from, to)
    }
    await using again = await startIngest({ directory: to, ...settings })
    const known = again.rows.length
    account.setStatus('takendown')
    account.setStatus(undefined)
    await again.until(() => again.rows.length === known + 2)
    assert.equal(again.states.get(account.did)?.needsRefetch, true)
    assert.deepEqual(await again.ingest.refill(contents, options), { is: 'whole', rows: records })
    await again.until(() => again.rows.length > known + 2 && again.rows.at(-1)?.rkey === all.at(-1))
    assert.deepEqual(
      again.rows.slice(known).map(({ kind }) => kind),
      [5, 5, 6, ...all.map(() => 7)],
    )
    assert.equal(again.states.get(account.did)?.needsRefetch, false)
  })
}
