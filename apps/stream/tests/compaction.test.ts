/** What later rows supersede, and what was taken down, leaves the files of the archive. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Clock } from '@tributary/lanes'
import { parseSegment } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { createLogger } from '@tributary/telemetry'
import { Archive } from '../src/archive/archive.ts'
import { verifyArchive } from '../src/archive/archive-tools.ts'
import { Compaction } from '../src/compaction/compaction.ts'
import { CompactionStore, type Takedown } from '../src/compaction/compaction-store.ts'
import { RepoStates, unknownRepo } from '../src/ingest/repo-states.ts'
import { openStateDatabase } from '../src/state-database.ts'
import { EventReader } from './event-reader.ts'
import { newRow } from './rows.ts'
import { operate, startTestStream, type TestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'

/**
 * Every row in the segment files, as `kind rkey`. Rows of one account are in order; those of two accounts come as
 * their verification ends, so that a test sorts them.
 */
function rowsIn(dataDirectory: string): string[] {
  const directory = join(dataDirectory, 'segments')
  const files = readdirSync(directory).toSorted((a, b) => a.localeCompare(b))
  return files.slice(0, -1).flatMap((name) => {
    const segment = parseSegment(readFileSync(join(directory, name)), nodeDecompress)
    return segment.blocks.flatMap((_, i) =>
      segment
        .readBlock(i)
        .rows()
        .map(({ kind, rkey }) => `${kind} ${rkey}`.trim()),
    )
  })
}

async function compact(stream: TestStream): Promise<Record<string, unknown>> {
  assert.equal((await operate(stream, 'compact', {})).status, 200)
  let report: Record<string, unknown> = {}
  const before = (await operate(stream, 'getCompaction')).body['endedAt']
  await eventually(async () => {
    report = (await operate(stream, 'getCompaction')).body
    return report['isRunning'] === false && report['endedAt'] !== undefined && report['endedAt'] !== before
  })
  return report
}

/**
 * Reads from the beginning until `until` has come. Gives the key of each record, and the kind of other events.
 */
async function replayOf({ url }: TestStream, ...until: readonly string[]): Promise<string[]> {
  using reader = await EventReader.open(url, { cursor: 0 })
  const keys = (): string[] =>
    reader.messages.map(({ rkey, $type }) => (typeof rkey === 'string' ? rkey : ($type.split('#')[1] ?? '')))
  await reader.until(() => until.every((key) => keys().includes(key)))
  return keys()
}

async function startUpstream() {
  const directory = await mkdtempDisposable(join(tmpdir(), 'compaction-'))
  const plc = await startPlc()
  const host = await startScriptedHost({ plcUrl: plc.url })
  return {
    host,
    directory: directory.path,
    stream: () =>
      startTestStream({
        dataDirectory: directory.path,
        relayUrl: host.url.replace('http', 'ws'),
        plcUrl: plc.url,
      }),
    async [Symbol.asyncDispose]() {
      await host.stop()
      await plc[Symbol.asyncDispose]()
      await directory.remove()
    },
  }
}

test('rows that later ones supersede leave the files, markers and deletes stay, and readers get what is left', async () => {
  await using upstream = await startUpstream()
  const { host, directory } = upstream
  const [writer, gone] = [
    await host.createAccount({ announce: false }),
    await host.createAccount({ announce: false }),
  ]
  {
    await using stream = await upstream.stream()
    for (const rkey of ['kept', 'changed', 'deleted']) writer.create(follow, { note: `first ${rkey}` }, rkey)
    gone.create(follow, { note: 'secret of the deleted account' }, 'gone')
    await replayOf(stream, 'deleted', 'gone')
    await stream.seal()
    const etag = async (): Promise<string | null> =>
      (await stream.archive('getSegment?name=seg_0000000000.jss')).headers.get('etag')
    const before = await etag()
    gone.setStatus('deleted')
    await replayOf(stream, 'account')
    writer.update(follow, 'changed', { note: 'second' })
    writer.delete(follow, 'deleted')
    writer.create(follow, {}, 'last')
    await replayOf(stream, 'last')
    const report = await compact(stream)
    assert.deepEqual([report['rowsDropped'], report['segmentsRewritten']], [3, 1])
    assert.notEqual(await etag(), before)
    // Every file of the log that is left has been ended, so that it goes once its rows are in blocks.
    const logNames = readdirSync(join(directory, 'log'))
    const unfinished = (name: string): boolean => name.endsWith('.tlog') && !logNames.includes(`${name}.idx`)
    assert.deepEqual(logNames.filter(unfinished), [])
    assert.deepEqual(rowsIn(directory), ['1 kept', '5', '2 changed', '3 deleted', '1 last'])
    assert.deepEqual(await replayOf(stream, 'last'), ['kept', 'account', 'changed', 'deleted', 'last'])
    assert.equal((await compact(stream))['rowsDropped'], 3)
  }
  const damage: string[] = []
  await verifyArchive(directory, (segment) => damage.push(...segment.damage))
  assert.deepEqual(damage, [])
  await using again = await upstream.stream()
  assert.deepEqual(await replayOf(again, 'last'), ['kept', 'account', 'changed', 'deleted', 'last'])
  writer.update(follow, 'last', {})
  await replayOf(again, 'last')
})

test('records of an account that was taken down leave the files, and those of one that is back stay', async () => {
  await using upstream = await startUpstream()
  const { host, directory } = upstream
  const [down, back, other] = [
    await host.createAccount({ announce: false }),
    await host.createAccount({ announce: false }),
    await host.createAccount({ announce: false }),
  ]
  await using stream = await upstream.stream()
  for (const [account, rkey] of [
    [down, 'down-1'],
    [back, 'back'],
    [other, 'other'],
  ] as const) {
    account.create(follow, {}, rkey)
    await replayOf(stream, rkey)
  }
  await stream.seal()
  down.create(follow, {}, 'down-2')
  await replayOf(stream, 'down-2')
  down.setStatus('takendown')
  down.create(follow, {}, 'down-3')
  back.setStatus('takendown')
  back.setStatus(undefined)
  other.create(follow, {}, 'last')
  await replayOf(stream, 'last')
  await eventually(async () => (await operate(stream, 'getCompaction')).body['pendingTakedowns'] === 2)
  const pending = async (): Promise<unknown[]> => {
    const coverage = await fetch(`${stream.url}/xrpc/network.social.stream.getCoverage`)
    const { pendingTakedownSegments } = (await coverage.json()) as Record<string, unknown> // by its lexicon
    const download = await stream.archive('getSegment?name=seg_0000000000.jss')
    const block = await stream.archive('getBlock?segment=seg_0000000000.jss&blockIndex=0')
    return [
      pendingTakedownSegments,
      ...[download, block].map(({ headers }) => headers.get('tributary-pending')),
    ]
  }
  assert.deepEqual(await pending(), [['seg_0000000000.jss'], 'takedown', 'takedown'])
  const report = await compact(stream)
  assert.deepEqual([report['rowsDropped'], report['pendingTakedowns']], [2, 0])
  assert.deepEqual(await pending(), [[], null, null])
  assert.deepEqual(rowsIn(directory).toSorted(), ['1 back', '1 last', '1 other', '5', '5', '5'])
  // The pass does not come again: what the account writes after it must not reach a file.
  down.create(follow, {}, 'after-the-pass')
  other.create(follow, {}, 'end')
  await replayOf(stream, 'end')
  await stream.seal()
  const hidden = (): Promise<number> =>
    stream.metric('stream_upstream_events_refused_total', 'account-hidden')
  await eventually(async () => (await hidden()) === 2)
  assert.deepEqual(rowsIn(directory).toSorted(), ['1 back', '1 end', '1 last', '1 other', '5', '5', '5'])
})

test('a takedown that was noted before the clock was set back does not wait for it', async () => {
  await using upstream = await startUpstream()
  const database = openStateDatabase(join(upstream.directory, 'state.sqlite'))
  const put = database.prepare('INSERT INTO pending_takedowns (did, at_ms) VALUES (?, ?)')
  put.run('did:plc:22222222222222222222222a', Date.now() + 86_400_000)
  database.close()
  await using stream = await upstream.stream()
  await eventually(async () => (await operate(stream, 'getCompaction')).body['pendingTakedowns'] === 0)
})

test('a takedown has no segment sealed: what the active one holds of the account goes when that is sealed', async () => {
  await using upstream = await startUpstream()
  const { host, directory } = upstream
  const [down, other] = [
    await host.createAccount({ announce: false }),
    await host.createAccount({ announce: false }),
  ]
  {
    await using stream = await upstream.stream()
    down.create(follow, {}, 'sealed')
    await replayOf(stream, 'sealed')
    await stream.seal()
    down.create(follow, {}, 'active')
    await replayOf(stream, 'active')
    down.setStatus('takendown')
    other.create(follow, {}, 'last')
    await replayOf(stream, 'last')
    await eventually(async () => (await operate(stream, 'getCompaction')).body['pendingTakedowns'] === 1)
  }
  // The next start takes it for one of long ago.
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  database.exec('UPDATE pending_takedowns SET at_ms = 0')
  database.close()
  await using stream = await upstream.stream()
  const untilDropped = async (rows: number): Promise<void> => {
    const report = async (): Promise<unknown[]> => {
      const { body } = await operate(stream, 'getCompaction')
      return [body['rowsDropped'], body['pendingTakedowns']]
    }
    await eventually(async () => (await report()).join() === `${rows},0`, report)
  }
  await untilDropped(1)
  assert.deepEqual(rowsIn(directory), [])
  const { segments } = (await (await stream.archive('listSegments')).json()) as { segments: unknown[] } // by its lexicon
  assert.equal(segments.length, 1)
  await stream.seal()
  await untilDropped(2)
  assert.deepEqual(rowsIn(directory).toSorted(), ['1 last', '5'])
})

test('many segments are asked for many takedowns in turns of the event loop, once until one of them changes', async (t) => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'compaction-'))
  const database = openStateDatabase(join(directory.path, 'state.sqlite'))
  await using _database = { [Symbol.asyncDispose]: async () => void database.close() }
  const put = database.prepare('INSERT INTO pending_takedowns (did, at_ms) VALUES (?, ?)')
  const dids = Array.from({ length: 500 }, (_, i) => `did:plc:${String(i).padStart(24, 'a')}`)
  for (const [i, did] of dids.entries()) put.run(did, i)
  const covered = { appliedSeq: 0, blockSeq: 0 }
  const { archive } = await Archive.open({
    directory: directory.path,
    covered,
    segmentBytesMax: 1e9,
    segmentAgeMsMax: 1e9,
    onFailure: assert.fail,
  })
  await using _archive = { [Symbol.asyncDispose]: () => archive.close() }
  const segmentCount = 40
  for (let n = 1; n <= segmentCount; n++) {
    archive.append(newRow({ n, did: dids[400] ?? '' }), { seq: n, epoch: 0 })
    await archive.seal()
  }
  const [store, states] = [new CompactionStore(database), new RepoStates(database)]
  const compaction = new Compaction({
    archive,
    store,
    states,
    everyMs: 0,
    bytesPerSecond: 1e9,
    logger: createLogger('stream', { level: 'silent' }),
    onDropped: () => {},
    onFailure: assert.fail,
  })
  // Their filters are in memory from now on.
  for (const segment of archive.segments.sealed) assert.equal(await compaction.isPending(segment), true)
  let turns = 0
  let ticking = setImmediate(function tick() {
    turns++
    ticking = setImmediate(tick)
  })
  t.after(() => clearImmediate(ticking))
  assert.equal((await compaction.pendingSegments()).length, segmentCount)
  assert.ok(turns >= segmentCount, `${turns} turns`)
  const before = turns
  assert.equal((await compaction.pendingSegments()).length, segmentCount)
  assert.ok(turns <= before + 1)
  // Who asks for metrics without pause does not have all of them looked at.
  const looked = ['takedowns', 'before'] as const
  const [takedowns, open] = looked.map((method) => t.mock.method(store, method))
  assert.equal(compaction.report.pendingTakedowns, dids.length)
  assert.deepEqual([takedowns?.mock.callCount(), open?.mock.callCount()], [0, 0])
  const known = [...store.takedowns()].map((each) => ({ ...each, lookedSeq: segmentCount }))
  await store.notePass(known)
  assert.equal(compaction.report.pendingTakedowns, 0)
  assert.deepEqual(await compaction.pendingSegments(), [])
  // What is kept in memory is what a start reads.
  store.noteTakedown(states, dids[0] ?? '')
  await states.save({ relayUrl: '', epoch: 0, cursor: 0, epochBeganMs: 0 }, covered, Promise.resolve())
  assert.deepEqual([...store.takedowns()], [...new CompactionStore(database).takedowns()])
  assert.equal((await compaction.pendingSegments()).length, 0)
})

test('takedowns are counted as they are, when they come again, were looked for or are done', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'compaction-'))
  const database = openStateDatabase(join(directory.path, 'state.sqlite'))
  const store = new CompactionStore(database)
  const note = (...dids: string[]): void => {
    for (const did of dids) store.noteTakedown({ alongside: (_, onSaved) => onSaved?.() }, did)
  }
  const counts = (): number[] => [0, 1, 10, 11].map((seq) => store.countBefore(seq))
  const all = (): Takedown[] => [...store.takedowns()]
  note('did:plc:a', 'did:plc:b', 'did:plc:c')
  note('did:plc:b')
  assert.deepEqual(counts(), [3, 3, 3, 3])
  await store.notePass(
    all().map((each) => ({ ...each, lookedSeq: 10, upToSeq: each.did === 'did:plc:a' ? 5 : 12 })),
  )
  assert.deepEqual(counts(), [0, 0, 0, 2])
  const open = (seq: number): string[] => [...store.before(seq)].map(({ did }) => did)
  assert.deepEqual([open(10), open(11)], [[], ['did:plc:c', 'did:plc:b']])
  note('did:plc:c')
  assert.deepEqual([open(0), open(11)], [['did:plc:c'], ['did:plc:b', 'did:plc:c']])
  assert.deepEqual(counts(), [1, 1, 1, 2])
  await store.notePass(all().map((each) => ({ ...each, lookedSeq: 12 })))
  assert.deepEqual([all(), store.countBefore(Infinity)], [[], 0])
  database.close()
})

/** Time passes by waiting alone. The `stopAt`th wait that is longer than a second begins with something else. */
class WaitingClock implements Clock {
  #nowMs = 1_700_000_000_000
  longWaits = 0
  readonly #stopAt: number
  readonly #onStop: () => Promise<void>
  onWait: () => void = () => {}

  constructor(stopAt: number, onStop: () => Promise<void>) {
    this.#stopAt = stopAt
    this.#onStop = onStop
  }

  nowMs(): number {
    return this.#nowMs
  }

  after(ms: number, call: () => void): Disposable {
    this.onWait()
    const go = (): void => {
      this.#nowMs += ms
      setImmediate(call)
    }
    if (ms > 1000 && ++this.longWaits === this.#stopAt) void this.#onStop().then(go)
    else go()
    return { [Symbol.dispose]: () => {} }
  }
}

test('a takedown that comes while a pass is under way does not wait for its end, and the pass misses nothing', async () => {
  // While what is superseded is looked for, and while segments are rewritten.
  for (const stopAt of [2, 12]) {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'compaction-'))
    const database = openStateDatabase(join(directory.path, 'state.sqlite'))
    await using _database = { [Symbol.asyncDispose]: async () => void database.close() }
    const [busy, down] = ['did:plc:busy', 'did:plc:down']
    const states = new RepoStates(database)
    const covered = { appliedSeq: 0, blockSeq: 0 }
    const save = async (): Promise<void> =>
      await states.save({ relayUrl: '', epoch: 0, cursor: 0, epochBeganMs: 0 }, covered, Promise.resolve())
    const { archive } = await Archive.open({
      directory: directory.path,
      covered,
      segmentBytesMax: 1e9,
      segmentAgeMsMax: 1e12,
      onFailure: assert.fail,
    })
    await using _archive = { [Symbol.asyncDispose]: () => archive.close() }
    const segmentCount = 8
    for (let n = 1; n <= segmentCount; n++) {
      const update = newRow({ n, kind: n === 1 ? 1 : 2, did: busy })
      archive.append({ ...update, draft: { ...update.draft, rkey: 'same' } }, { seq: n, epoch: 0 })
      archive.append(newRow({ n, did: down }), { seq: n, epoch: 0 })
      await archive.seal()
    }
    const store = new CompactionStore(database)
    const clock = new WaitingClock(stopAt, async () => {
      states.set(down, { ...unknownRepo, rev: 'r9', isHidden: true })
      store.noteTakedown(states, down)
      await save()
    })
    const compaction = new Compaction({
      archive,
      store,
      states,
      everyMs: 0,
      // A block takes some minutes.
      bytesPerSecond: 1,
      logger: createLogger('stream', { level: 'silent' }),
      onDropped: () => {},
      onFailure: assert.fail,
      clock,
    })
    let isNoted = false
    let doneAfter = Infinity
    clock.onWait = () => {
      const { endedAtMs } = compaction.report
      isNoted ||= store.takedowns().some(() => true)
      if (isNoted && endedAtMs === 0 && !store.takedowns().some(() => true))
        doneAfter = Math.min(doneAfter, clock.longWaits - stopAt)
    }
    compaction.compact()
    assert.ok(compaction.report.isRunning, 'it is asked for')
    compaction.start()
    await eventually(() => compaction.report.endedAtMs > 0)
    await compaction.close()
    assert.ok(!compaction.report.isRunning)
    // The takedown has each segment's two filters and its block read, and the block once more. It waits for what was being
    // read, and for the rewrite of one segment.
    assert.ok(doneAfter <= 4 * segmentCount + 4, `${doneAfter} blocks after it came at ${stopAt}`)
    const left = await Promise.all(
      archive.segments.sealed.map(async (each) => (await each.readBlock(0)).rows()),
    )
    assert.deepEqual(
      left.flat().map(({ did, seq }) => [did, seq]),
      [[busy, 2 * segmentCount - 1]],
    )
  }
})
