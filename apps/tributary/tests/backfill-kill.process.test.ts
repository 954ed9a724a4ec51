/** A backfill that is killed goes on where it was, in each format. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtempDisposable, readFile, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { eventually } from '@tributary/testkit'
import { childEnvironment } from '@tributary/settings'
import { parquetRows } from './parquet-rows.ts'
import { Commands } from './commands.ts'
import { mainFile } from './run-cli.ts'
import { StaticStream } from './static-stream.ts'

const commands = new Commands()
after(() => commands[Symbol.asyncDispose]())

/** More than one transaction of SQLite, and one part of Parquet. The rest of the first run is not durable when it is killed. */
const [sentFirst, all] = [25_000, 30_000]

interface Format {
  name: string
  /** Whether the first run has written something. */
  hasBegun: (path: string) => Promise<boolean>
  seqs: (path: string) => Promise<unknown[]>
}

const formats: Format[] = [
  {
    name: 'out.ndjson',
    hasBegun: async (path) => existsSync(path) && (await stat(path)).size > 0,
    seqs: async (path) =>
      (await readFile(path, 'utf8'))
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { seq: number }).seq), // an event
  },
  {
    name: 'out.sqlite',
    hasBegun: async (path) => existsSync(path) && sqliteSeqs(path).length > 0,
    seqs: async (path) => sqliteSeqs(path),
  },
  {
    name: 'out.parquet',
    hasBegun: async (path) => existsSync(join(path, 'part-000001.parquet')),
    seqs: async (path) => (await parquetRows(path)).map(({ seq }) => Number(seq)),
  },
]

function sqliteSeqs(path: string): unknown[] {
  using database = new DatabaseSync(path, { timeout: 5000 })
  if (database.prepare("select 1 from sqlite_schema where name = 'events'").get() === undefined) return []
  return database
    .prepare('select seq from events order by seq')
    .all()
    .map(({ seq }) => seq)
}

for (const { name, hasBegun, seqs } of formats) {
  test(`a backfill to ${name} that is killed is continued, and has each event once`, async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-kill-'))
    const path = join(directory.path, name)
    await using stream = await StaticStream.start(all)
    stream.sentThrough = sentFirst
    const words = ['backfill', '--url', stream.url, '--output', path]
    const first = spawn(process.execPath, [mainFile, ...words], {
      env: childEnvironment({}),
      stdio: 'ignore',
    })
    await eventually(
      () => hasBegun(path),
      () => name,
    )
    first.kill('SIGKILL')
    await once(first, 'exit')
    stream.sentThrough = all
    const second = await commands.run(words)
    assert.equal(second.code, 0, second.stderr)
    assert.match(second.stderr, /through seq 30000, the head of the stream/)
    assert.deepEqual(
      await seqs(path),
      Array.from({ length: all }, (_, i) => i + 1),
    )
    const third = await commands.run(words)
    assert.match(third.stderr, /done: 0 events after seq 30000 through seq 30000/)
  })
}
