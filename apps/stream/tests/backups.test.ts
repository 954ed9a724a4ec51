/** A copy of the data directory, made while the stream runs, answers as the stream did. */
import assert from 'node:assert/strict'
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { cp, mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Row } from '@tributary/segment'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { verifyArchive } from '../src/archive/archive-tools.ts'
import { Archive } from '../src/archive/archive.ts'
import { Backups } from '../src/archive/backups.ts'
import { RepoStates } from '../src/ingest/repo-states.ts'
import { openStateDatabase } from '../src/state-database.ts'
import { EventReader, type StreamMessage } from './event-reader.ts'
import { newRow, numberOf } from './rows.ts'
import { operate, startTestStream, type TestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'

const hasRecord = (rkey: string) => (messages: readonly StreamMessage[]) =>
  messages.some((message) => message['rkey'] === rkey)

const nameOf = ({ $type, did, rkey }: StreamMessage): string => `${$type} ${String(did)} ${String(rkey)}`

async function replayOf({ url }: TestStream, until: (messages: readonly StreamMessage[]) => boolean) {
  using reader = await EventReader.open(url, { cursor: 0 })
  await reader.until(() => until(reader.messages))
  return [...reader.messages]
}

async function startUpstream() {
  const directory = await mkdtempDisposable(join(tmpdir(), 'backups-'))
  const plc = await startPlc()
  const host = await startScriptedHost({ plcUrl: plc.url })
  const start = (name: string): Promise<TestStream> =>
    startTestStream({
      dataDirectory: join(directory.path, name),
      relayUrl: host.url.replace('http', 'ws'),
      plcUrl: plc.url,
    })
  return {
    directory: directory.path,
    host,
    start,
    async [Symbol.asyncDispose]() {
      await host.stop()
      await plc[Symbol.asyncDispose]()
      await directory.remove()
    },
  }
}

test('a backup of a stream that goes on receiving answers as the stream did, and goes on where it was', async () => {
  await using upstream = await startUpstream()
  const { host, directory } = upstream
  const [writer, gone] = [
    await host.createAccount({ announce: false }),
    await host.createAccount({ announce: false }),
  ]
  let written = 0
  const write = (): void => void writer.create(follow, { note: `${written}` }, `r${written++}`)
  await using stream = await upstream.start('stream')
  for (let n = 0; n < 20; n++) write()
  gone.create(follow, {}, 'hidden')
  gone.setStatus('deactivated')
  await replayOf(stream, (messages) => messages.length === 21)
  await stream.seal()
  assert.equal(
    (await operate(stream, 'removeCollection', { collection: 'org.impact.collection' })).status,
    200,
  )
  const key = (await operate(stream, 'createKey', { owner: 'reader' })).body['key']
  for (let n = 0; n < 20; n++) write()
  await replayOf(stream, hasRecord('r39'))

  const backup = operate(stream, 'backUp', { name: 'first', actor: 'ann' })
  // What comes while the copy is made may be in it or not.
  for (let n = 0; n < 500; n++) write()
  const { status, body } = await backup
  assert.equal(status, 200, JSON.stringify(body))
  const copy = join(directory, 'stream', 'backups', 'first')
  const last = Number(body['lastSeq'])
  assert.deepEqual([body['directory'], last >= 41], [copy, true])
  for (let n = 0; n < 5; n++) write()
  const all = await replayOf(stream, hasRecord(`r${written - 1}`))
  const damage: string[] = []
  const log = await verifyArchive(copy, (segment) => damage.push(...segment.damage))
  assert.deepEqual([damage, log.damage], [[], []])

  await cp(copy, join(directory, 'restored'), { recursive: true })
  await using restored = await upstream.start('restored')
  const again = await replayOf(restored, hasRecord(`r${written - 1}`))
  // Whoever saw later rows of the stream is told of them, and not that its cursor is of another one.
  using ahead = await EventReader.open(restored.url, { cursor: last + 2 })
  await ahead.until(() => ahead.messages.length > 0)
  const { name, firstSeq, lastSeq } = ahead.messages[0] ?? assert.fail()
  assert.deepEqual([name, firstSeq], ['UnreadableEvents', last + 2])
  assert.ok(Number(lastSeq) > 1_000_000_000)
  assert.deepEqual(again.map(nameOf), all.map(nameOf), 'every event once, in its order')
  const upTo = (messages: readonly StreamMessage[]): StreamMessage[] =>
    messages.filter(({ seq = 0 }) => seq <= last)
  assert.deepEqual(upTo(again), upTo(all))
  const givenAgain = again.flatMap(({ seq = 0 }) => (seq > last ? [seq] : []))
  assert.ok(
    givenAgain.length >= 5 && givenAgain.every((seq) => seq > 1_000_000_000),
    'no number stands for two events',
  )
  for (const method of ['listCollections', 'listKeys'])
    assert.deepEqual((await operate(restored, method)).body, (await operate(stream, method)).body)
  const headers = { Authorization: `Bearer ${String(key)}` }
  for (const name of readdirSync(join(copy, 'segments'))) {
    const [one, other] = await Promise.all(
      [stream, restored].map(async (each) => {
        const answer = await each.archive(`getSegment?name=${name}`, { headers })
        return [answer.status, answer.headers.get('etag'), Buffer.from(await answer.arrayBuffer())]
      }),
    )
    assert.deepEqual(other, one)
  }
  const { audit } = (await operate(stream, 'listAudit')).body as {
    audit: { subject: string; actor: string }[]
  } // by its lexicon
  assert.deepEqual([audit[0]?.subject, audit[0]?.actor], ['backup first', 'ann'])
})

test('a backup that is restored twice gives each event a seq of its own, and tells those who were further', async () => {
  await using upstream = await startUpstream()
  const { host, directory, start } = upstream
  const [one, other] = [await host.createAccount(), await host.createAccount()]
  {
    await using stream = await start('stream')
    one.create(follow, {}, 'before')
    await replayOf(stream, hasRecord('before'))
    assert.equal((await operate(stream, 'backUp', { name: 'copy' })).status, 200)
  }
  for (const name of ['first', 'second'])
    await cp(join(directory, 'stream', 'backups', 'copy'), join(directory, name), { recursive: true })
  let saved = 0
  {
    await using stream = await start('first')
    one.create(follow, {}, 'lost')
    saved = (await replayOf(stream, hasRecord('lost'))).at(-1)?.seq ?? assert.fail()
  }
  // That machine is lost as well, and the relay no longer has what it read.
  host.forgetThrough(host.lastSeq)
  for (const rkey of ['started', 'again']) {
    await using stream = await start('second')
    other.create(follow, {}, rkey)
    using reader = await EventReader.open(stream.url, { cursor: saved + 1 })
    await reader.until(() => hasRecord(rkey)(reader.messages))
    const [notice, ...events] = reader.messages
    assert.deepEqual([notice?.['name'], notice?.['firstSeq']], ['UnreadableEvents', saved + 1])
    const seqs = events.map(({ seq = 0 }) => seq)
    assert.ok(seqs.length > 0 && seqs.every((seq) => seq > Number(notice?.['lastSeq'])), String(seqs))
    assert.ok(hasRecord('started')(events), 'all that came since is read')
  }
})

test('a backup has rows of the active segment that the log has no more', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'backups-'))
  const dataDirectory = directory.path
  const database = openStateDatabase(join(dataDirectory, 'state.sqlite'))
  // The rows are as old as 1970, and nothing is to be sealed by itself.
  const bounds = { segmentBytesMax: 1 << 28, segmentAgeMsMax: Infinity, onFailure: assert.ifError }
  const none = { appliedSeq: 0, blockSeq: 0 }
  const { archive } = await Archive.open({
    directory: dataDirectory,
    covered: none,
    logFileBytesMax: 1,
    ...bounds,
  })
  const append = async (from: number, to: number, payloadBytes: number): Promise<void> => {
    for (let n = from; n <= to; n++) archive.append(newRow({ n, payloadBytes }), { seq: n, epoch: 0 })
    await archive.whenDurable()
  }
  await append(1, 18, 950_000)
  await eventually(() => archive.blockSeq > 0)
  const covered = { appliedSeq: 18, blockSeq: archive.blockSeq }
  const states = new RepoStates(database)
  await states.save(
    { relayUrl: 'ws://x', epoch: 0, epochBeganMs: 0, cursor: 18 },
    covered,
    archive.whenDurable(),
  )
  archive.stateSaved(covered)
  await append(19, 22, 10)
  const { directory: copy, lastSeq } = await new Backups({ dataDirectory, database, archive }).make('one')
  await archive.close()
  database.close()

  const copied = openStateDatabase(join(copy, 'state.sqlite'))
  const found = new RepoStates(copied).covered
  copied.close()
  assert.deepEqual([found, lastSeq], [covered, 22])
  const { archive: restored, recovered } = await Archive.open({ directory: copy, covered: found, ...bounds })
  const rows: Row[] = []
  for (let seq = 0; ;) {
    const place = restored.segments.firstBlockAfter(seq)
    if (!place) break
    rows.push(...(await restored.segments.readBlock(place)).rows())
    seq = place.entry.maxSeq
  }
  await restored.close()
  const numbers = (from: number, to: number): number[] =>
    Array.from({ length: to - from + 1 }, (_, i) => from + i)
  assert.deepEqual([...rows, ...recovered.pending.map(({ row }) => row)].map(numberOf), numbers(1, 22))
  assert.deepEqual(recovered.unapplied.map(numberOf), numbers(19, 22))
})

test('a backup needs a name of its own, and one that fails leaves nothing and costs the stream nothing', async () => {
  await using upstream = await startUpstream()
  const { host, directory } = upstream
  const account = await host.createAccount({ announce: false })
  await using stream = await upstream.start('stream')
  account.create(follow, {}, 'a')
  await replayOf(stream, (messages) => messages.length === 1)
  for (const name of ['', '../elsewhere', '.hidden', 'Upper', 'x.tmp', 'a/b'])
    assert.equal((await operate(stream, 'backUp', { name })).body['error'], 'InvalidRequest', name)
  const backups = join(directory, 'stream', 'backups')
  writeFileSync(backups, '')
  const failed = await operate(stream, 'backUp', { name: 'one' })
  assert.deepEqual([failed.status, failed.body['error']], [500, 'BackupFailed'])
  assert.match(String(failed.body['message']), /the archive is as it was: ENOTDIR/)
  rmSync(backups)
  const both = await Promise.all(
    ['one', 'two'].map(async (name) => await operate(stream, 'backUp', { name })),
  )
  assert.deepEqual(
    both.map(({ status, body }) => [status, body['error']]),
    [
      [200, undefined],
      [409, 'BackupRunning'],
    ],
  )
  assert.equal((await operate(stream, 'backUp', { name: 'one' })).body['error'], 'BackupExists')
  writeFileSync(join(backups, 'three.tmp'), '')
  assert.equal((await operate(stream, 'backUp', { name: 'three' })).status, 200, 'what a stop left goes')
  assert.deepEqual(readdirSync(backups).toSorted(), ['one', 'three'])
  account.create(follow, {}, 'b')
  await replayOf(stream, (messages) => messages.length === 2)
})
