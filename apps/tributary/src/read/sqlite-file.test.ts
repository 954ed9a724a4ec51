import assert from 'node:assert/strict'
import { copyFile, mkdtempDisposable, open, readdir, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { type ClientEvent, StreamError } from '@tributary/client/node'
import { commitEvent, did, identityEvents, time } from '../../tests/sample-events.ts'
import { SqliteFile } from './sqlite-file.ts'

function seqsOf(path: string): unknown[] {
  using database = new DatabaseSync(path, { readOnly: true })
  return database
    .prepare('select seq from events order by seq')
    .all()
    .map(({ seq }) => seq)
}

test('each event is a row, with its record or its body as JSON', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-sqlite-'))
  const path = join(directory.path, 'out.sqlite')
  const record = { $type: 'a.b.c', text: 'Grüße \u0000 "quoted"' }
  const account = { did, seq: 3, time, active: false, status: 'deleted' }
  const sync = { did, rev: '3migo7fijwi2k', seq: 5, time, blocks: { $bytes: 'AAEC' } }
  const broken = {
    kind: 'commit',
    seq: 4,
    get did(): string {
      throw new StreamError('MalformedEvent', 'the row of seq 4 is malformed')
    },
  }
  {
    await using file = SqliteFile.open(path, 'all')
    const malformed = await file.append(
      [
        commitEvent(1, 'x', record),
        commitEvent(2, 'x'),
        { kind: 'account', seq: 3, did, time, account },
        broken,
        { kind: 'sync', seq: 5, did, time, sync },
      ] as ClientEvent[], // one of them is as an archive's malformed row
      5,
    )
    assert.deepEqual(
      malformed.map(({ message }) => message),
      ['the row of seq 4 is malformed'],
    )
    await file.sync()
  }
  using database = new DatabaseSync(path, { readOnly: true })
  const rows = database.prepare('select * from events order by seq').all()
  const none = {
    operation: null,
    collection: null,
    rkey: null,
    rev: null,
    cid: null,
    record: null,
    body: null,
  }
  const commit = { kind: 'commit', did, time, rev: '3migo7fijwi2k' }
  const shown = { ...commit, collection: 'org.impact.claim.activity', rkey: 'x' }
  assert.deepEqual(
    rows.map((row) => ({ ...row })),
    [
      { ...none, ...shown, seq: 1, operation: 'create', cid: 'bafycid', record: JSON.stringify(record) },
      { ...none, ...shown, seq: 2, operation: 'delete' },
      { ...none, seq: 3, kind: 'account', did, time, body: JSON.stringify(account) },
      { ...none, seq: 5, kind: 'sync', did, time, body: JSON.stringify(sync) },
    ],
  )
  const text = database.prepare("select record ->> '$.text' as text from events where seq = 1").get()?.[
    'text'
  ]
  assert.equal(text, record.text)
})

test('a run that broke off is continued after its last transaction, and an event that comes twice is there once', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-sqlite-'))
  const path = join(directory.path, 'out.sqlite')
  {
    await using file = SqliteFile.open(path, 'all')
    await file.append(identityEvents(1, 2), 2)
    await file.sync()
    await file.append(identityEvents(3), 3)
  }
  assert.deepEqual(seqsOf(path), [1, 2])
  {
    await using file = SqliteFile.open(path, 'all')
    assert.equal(file.cursor, 2)
    await file.append(identityEvents(2, 3, 4), 9)
    await file.sync()
  }
  assert.deepEqual(seqsOf(path), [1, 2, 3, 4])
  await using file = SqliteFile.open(path, 'all')
  assert.equal(file.cursor, 9)
})

test('a run leaves one file, which can be copied alone, also when somebody has read it meanwhile', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-sqlite-'))
  const path = join(directory.path, 'out.sqlite')
  {
    await using file = SqliteFile.open(path, 'all')
    await file.append(identityEvents(1), 1)
    await file.sync()
    assert.deepEqual(seqsOf(path), [1])
    await file.append(identityEvents(2), 2)
    await file.sync()
  }
  assert.deepEqual(await readdir(directory.path), ['out.sqlite'])
  const copy = join(directory.path, 'copy.sqlite')
  await copyFile(path, copy)
  assert.deepEqual(seqsOf(copy), [1, 2])
  using reader = new DatabaseSync(path, { readOnly: true })
  assert.equal(reader.prepare('pragma journal_mode').get()?.['journal_mode'], 'delete')
})

test('a run ends well while somebody reads, and a run beside one that writes is told so', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-sqlite-'))
  const path = join(directory.path, 'out.sqlite')
  using reader = new DatabaseSync(path)
  {
    await using file = SqliteFile.open(path, 'all')
    await file.append(identityEvents(1), 1)
    await file.sync()
    reader.exec('begin; select * from events')
    await file.append(identityEvents(2), 2)
    await file.sync()
  }
  reader.exec('commit')
  assert.deepEqual(seqsOf(path), [1, 2])
  reader.exec('begin immediate')
  assert.throws(() => SqliteFile.open(path, 'all', (at) => new DatabaseSync(at, { timeout: 0 })), {
    name: 'OutputFileError',
    message: `${path}: another program writes to it; end that first`,
  })
})

test('the newest state of each record is one query, as the documents have it', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-sqlite-'))
  const path = join(directory.path, 'out.sqlite')
  {
    await using file = SqliteFile.open(path, 'all')
    const events = [
      commitEvent(1, 'kept', { title: 'first' }),
      commitEvent(2, 'gone', { title: 'gone' }),
      commitEvent(3, 'kept', { title: 'newest' }),
      commitEvent(4, 'gone'),
    ]
    await file.append(events, 4)
    await file.sync()
  }
  const documents = await readFile(join(import.meta.dirname, '../../../../docs/commands.md'), 'utf8')
  const query = /```sql\n([^`]+)```/.exec(documents)?.[1] ?? ''
  using database = new DatabaseSync(path, { readOnly: true })
  assert.deepEqual(
    database
      .prepare(query)
      .all()
      .map((row) => Object.values(row)),
    [[did, 'kept', 3, 'newest']],
  )
})

test('other files, other databases and other selections are left as they are', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-sqlite-'))
  const [text, foreign, own] = ['text.db', 'foreign.db', 'own.db'].map((name) => join(directory.path, name))
  assert.ok(text && foreign && own)
  await writeFile(text, 'this is no database, and long enough to be taken for a header of one'.repeat(20))
  const before = await readFile(text, 'utf8')
  assert.throws(() => SqliteFile.open(text, 'all'), /text\.db: it exists and is no backfill/)
  assert.equal(await readFile(text, 'utf8'), before)
  {
    using database = new DatabaseSync(foreign)
    database.exec('create table events (mine text)')
  }
  const bytes = await readFile(foreign)
  assert.throws(() => SqliteFile.open(foreign, 'all'), {
    name: 'OutputFileError',
    message: /name another file/,
  })
  assert.deepEqual(await readFile(foreign), bytes)
  await SqliteFile.open(own, 'all')[Symbol.asyncDispose]()
  assert.throws(() => SqliteFile.open(own, 'only one collection'), /other filters/)
  assert.throws(
    () => SqliteFile.open(join(directory.path, 'none', 'out.db'), 'all'),
    /cannot be opened or made/,
  )
})

test('a database whose place is none is not continued', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-sqlite-'))
  const path = join(directory.path, 'out.sqlite')
  await SqliteFile.open(path, 'all')[Symbol.asyncDispose]()
  for (const cursor of ['-1', '9223372036854775807']) {
    {
      using database = new DatabaseSync(path)
      database.exec(`update backfill set cursor = ${cursor}`)
    }
    assert.throws(() => SqliteFile.open(path, 'all'), {
      name: 'OutputFileError',
      message: `${path} does not say where it ends; remove it to start again`,
    })
  }
})

test('a disk that is full costs what was not synced, and a later run goes on', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-sqlite-'))
  const path = join(directory.path, 'out.sqlite')
  const text = 'x'.repeat(100_000)
  // A disk that has room for some pages more, as far as SQLite can tell.
  const connect = (at: string): DatabaseSync => {
    const database = new DatabaseSync(at)
    database.exec('pragma max_page_count = 20')
    return database
  }
  {
    await using file = SqliteFile.open(path, 'all', connect)
    await file.append([commitEvent(1, 'x', { text: 'short' })], 1)
    await file.sync()
    await assert.rejects(file.append([commitEvent(2, 'x', { text })], 2), {
      name: 'OutputFileError',
      message: `${path}: the disk is full: make room and run it again`,
    })
  }
  assert.deepEqual(seqsOf(path), [1])
  {
    await using file = SqliteFile.open(path, 'all')
    assert.equal(file.cursor, 1)
    await file.append([commitEvent(2, 'x', { text })], 2)
    await file.sync()
  }
  assert.deepEqual(seqsOf(path), [1, 2])
})

test('a database that may not be written, and one that is damaged, are told in a sentence', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-sqlite-'))
  const path = join(directory.path, 'out.sqlite')
  await SqliteFile.open(path, 'all')[Symbol.asyncDispose]()
  // The file's own rights would not stop the superuser.
  const connect = (at: string): DatabaseSync => new DatabaseSync(`file:${at}?mode=ro`)
  assert.throws(() => SqliteFile.open(path, 'all', connect), {
    name: 'OutputFileError',
    message: `${path}: this user may not write to it`,
  })
  await using handle = await open(path, 'r+')
  // The head of the file stays, so that it is still a database.
  await handle.write(Buffer.alloc(1000, 0xff), 0, 1000, 100)
  assert.throws(() => SqliteFile.open(path, 'all'), {
    name: 'OutputFileError',
    message: `${path}: it is damaged; remove it to start again`,
  })
})
