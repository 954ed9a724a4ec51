import assert from 'node:assert/strict'
import { mkdir, mkdtempDisposable, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ClientEvent, StreamError } from '@tributary/client/node'
import { commitEvent, did, identityEvents, time } from '../../tests/sample-events.ts'
import { parquetRows } from '../../tests/parquet-rows.ts'
import { ParquetDirectory } from './parquet-directory.ts'

type ParquetRow = Record<string, unknown>

async function seqsIn(path: string): Promise<number[]> {
  return (await parquetRows(path)).map(({ seq }) => Number(seq))
}

test('each event is a row, with its record or its body as JSON', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-parquet-'))
  const path = join(directory.path, 'out.parquet')
  const record = { $type: 'a.b.c', text: 'Grüße \u0000 "quoted"' }
  const account = { did, seq: 3, time, active: false, status: 'deleted' }
  const broken = {
    kind: 'commit',
    seq: 4,
    get did(): string {
      throw new StreamError('MalformedEvent', 'the row of seq 4 is malformed')
    },
  }
  const late = { ...commitEvent(2 ** 40, 'x'), time: '2026-01-02T03:04:05.123456Z' }
  {
    await using file = await ParquetDirectory.open(path, 'all')
    const malformed = await file.append(
      [
        commitEvent(1, 'x', record),
        { kind: 'account', seq: 3, did, time, account },
        broken,
        late,
      ] as ClientEvent[], // one of them is as an archive's malformed row
      2 ** 40,
    )
    assert.deepEqual(
      malformed.map(({ message }) => message),
      ['the row of seq 4 is malformed'],
    )
    await file.sync()
  }
  const [first, second, third, ...others] = await parquetRows(path)
  assert.deepEqual(others, [])
  const commit = {
    kind: 'commit',
    did,
    collection: 'org.impact.claim.activity',
    rkey: 'x',
    rev: first?.['rev'],
  }
  const none = { operation: null, collection: null, rkey: null, rev: null, cid: null, record: null }
  assert.deepEqual(clean(first), {
    ...commit,
    seq: 1n,
    time: BigInt(Date.parse(time)) * 1000n,
    operation: 'create',
    cid: 'bafycid',
    record: JSON.stringify(record),
    body: null,
  })
  assert.deepEqual(clean(second), {
    ...none,
    seq: 3n,
    kind: 'account',
    did,
    time: BigInt(Date.parse(time)) * 1000n,
    body: JSON.stringify(account),
  })
  assert.deepEqual(clean(third), {
    ...commit,
    seq: BigInt(2 ** 40),
    time: BigInt(Date.parse('2026-01-02T03:04:05Z')) * 1000n + 123_456n,
    operation: 'delete',
    cid: null,
    record: null,
    body: null,
  })
})

/** Readers give what is absent as undefined or null. */
function clean(row: ParquetRow | undefined): ParquetRow {
  return Object.fromEntries(Object.entries(row ?? {}).map(([name, value]) => [name, value ?? null]))
}

test('a run that broke off is continued after its last part, and an event that comes twice is there once', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-parquet-'))
  const path = join(directory.path, 'out.parquet')
  {
    await using file = await ParquetDirectory.open(path, 'all')
    await file.append(identityEvents(1, 2), 2)
    await file.sync()
    await file.append(identityEvents(3), 3)
  }
  assert.deepEqual(await seqsIn(path), [1, 2])
  const note = await readFile(join(path, '_progress.json'))
  {
    await using file = await ParquetDirectory.open(path, 'all')
    assert.equal(file.cursor, 2)
    await file.append(identityEvents(2, 3, 4), 9)
    await file.sync()
    await file.sync()
  }
  assert.deepEqual(await seqsIn(path), [1, 2, 3, 4])
  // As a run leaves it that ends between a part and its note.
  await writeFile(join(path, '_progress.json'), note)
  {
    await using file = await ParquetDirectory.open(path, 'all')
    assert.equal(file.cursor, 2)
    assert.deepEqual(await seqsIn(path), [1, 2])
    await file.append(identityEvents(3, 4, 5), 9)
    await file.sync()
  }
  assert.deepEqual(await seqsIn(path), [1, 2, 3, 4, 5])
  await using file = await ParquetDirectory.open(path, 'all')
  assert.equal(file.cursor, 9)
})

test('what another server calls a time, and is none, is left empty', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-parquet-'))
  const path = join(directory.path, 'out.parquet')
  await using file = await ParquetDirectory.open(path, 'all')
  await file.append([{ ...commitEvent(1, 'x'), time: 'yesterday' }], 1)
  await file.sync()
  assert.deepEqual(
    (await parquetRows(path)).map(({ seq, time: at }) => [seq, at ?? null]),
    [[1n, null]],
  )
})

test('a run that was killed before its first note is continued', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-parquet-'))
  const path = join(directory.path, 'out.parquet')
  await mkdir(path)
  await writeFile(join(path, '_unfinished'), '{"cur')
  await using file = await ParquetDirectory.open(path, 'all')
  assert.equal(file.cursor, 0)
})

test('a note that is no note of ours ends the run', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-parquet-'))
  const path = join(directory.path, 'out.parquet')
  await mkdir(path)
  for (const note of [
    '{"cursor":1,',
    'null',
    '5',
    '[]',
    '{}',
    '{"cursor":1,"parts":0.5,"selection":"all"}',
  ]) {
    await writeFile(join(path, '_progress.json'), note)
    await assert.rejects(ParquetDirectory.open(path, 'all'), {
      name: 'OutputFileError',
      message: `${path}/_progress.json cannot be read; remove ${path} to start again`,
    })
  }
})

test('a directory that lost a part is not continued', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-parquet-'))
  const path = join(directory.path, 'out.parquet')
  {
    await using file = await ParquetDirectory.open(path, 'all')
    await file.append(identityEvents(1), 1)
    await file.sync()
  }
  await rm(join(path, 'part-000001.parquet'))
  await assert.rejects(ParquetDirectory.open(path, 'all'), /has lost part-000001\.parquet; remove .* again/)
})

test('a part is written when it is large enough, and memory holds no more than one', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-parquet-'))
  const path = join(directory.path, 'out.parquet')
  await using file = await ParquetDirectory.open(path, 'all')
  const text = 'x'.repeat(1024 * 1024)
  for (let seq = 1; seq <= 40; seq++) await file.append([commitEvent(seq, 'x', { text })], seq)
  assert.equal((await seqsIn(path)).length, 32)
  await file.sync()
  assert.deepEqual((await readdir(path)).toSorted(), [
    '_progress.json',
    'part-000001.parquet',
    'part-000002.parquet',
  ])
  assert.equal((await seqsIn(path)).length, 40)
})

test('other files, other directories and other selections are left as they are', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-parquet-'))
  const [file, foreign, own] = ['file.parquet', 'foreign.parquet', 'own.parquet'].map((name) =>
    join(directory.path, name),
  )
  assert.ok(file && foreign && own)
  await writeFile(file, 'a single file')
  await mkdir(foreign)
  await writeFile(join(foreign, 'part-000001.parquet'), 'of somebody else')
  for (const path of [file, foreign])
    await assert.rejects(ParquetDirectory.open(path, 'all'), /exists and is no backfill/)
  assert.equal(await readFile(join(foreign, 'part-000001.parquet'), 'utf8'), 'of somebody else')
  await (await ParquetDirectory.open(own, 'all'))[Symbol.asyncDispose]()
  await assert.rejects(ParquetDirectory.open(own, 'only one collection'), /other filters/)
  await writeFile(join(own, '_progress.json'), '{')
  await assert.rejects(ParquetDirectory.open(own, 'all'), /remove .*own\.parquet to start again/)
})

test('a directory that another run writes into is refused, and is free when that run ends', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-parquet-'))
  const path = join(directory.path, 'out.parquet')
  {
    await using file = await ParquetDirectory.open(path, 'all')
    await file.append(identityEvents(1), 1)
    await assert.rejects(ParquetDirectory.open(path, 'all'), /another run writes into .*out\.parquet/)
    await file.sync()
  }
  assert.deepEqual(await readdir(directory.path), ['out.parquet'])
  // As a killed run leaves it.
  await writeFile(`${path}.lock`, '')
  await using file = await ParquetDirectory.open(path, 'all')
  assert.equal(file.cursor, 1)
})
