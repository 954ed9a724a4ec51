/** An index that is killed at a statement of a migration leaves a database that the next start brings to its end. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually, Postgres } from '@tributary/testkit'
import Sqlite from 'better-sqlite3'
import { Kysely, PostgresDialect, SqliteDialect } from 'kysely'
import pg from 'pg'
import { earlierItem, earlierRecord, makeEarlier } from '../tests/earlier-schema.ts'
import { createDatabase } from '../tests/operator.ts'
import { openIndexWriter } from './open-index.ts'
import type { IndexWriter } from './writer.ts'

/** Every statement would take twice as long, and shows no more: work and the note of it are two statements and more. */
const killEvery = 2

/** Opens the index at a place, and is killed at the statement with this number, from 0, of all connections. */
const program = `
  const [place, number, store, sqlite, pg] = process.argv.slice(1)
  const { openIndexWriter } = await import(store)
  const [{ default: Sqlite }, { default: { Client } }] = [await import(sqlite), await import(pg)]
  let left = Number(number)
  for (const [made, name] of [[Sqlite, 'prepare'], [Sqlite, 'exec'], [Client, 'query']]) {
    const plain = made.prototype[name]
    made.prototype[name] = function (...given) {
      if (left-- === 0) process.kill(process.pid, 'SIGKILL')
      return plain.apply(this, given)
    }
  }
  await (await openIndexWriter(place))[Symbol.asyncDispose]()`

/** True when it was killed; false when it came to its end before. */
async function killedAt(number: number, place: string): Promise<boolean> {
  const modules = [new URL('open-index.ts', import.meta.url).href, ...['better-sqlite3', 'pg'].map(pathOf)]
  const given = ['--input-type=module', '-e', program, place, String(number), ...modules]
  const child = spawn(process.execPath, given, { stdio: ['ignore', 'ignore', 'inherit'] })
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null] // as documented
  assert.ok(code === 0 || signal === 'SIGKILL', `${code} ${signal}`)
  return signal !== null
}

function pathOf(module: string): string {
  return import.meta.resolve(module)
}

/** The index of a place, once PostgreSQL has noticed that the one before is gone. */
async function reopened(place: string): Promise<IndexWriter> {
  let writer: IndexWriter | undefined
  await eventually(async () => {
    try {
      writer = await openIndexWriter(place)
      return true
    } catch (error) {
      if (error instanceof Error && error.message.includes('another index')) return false
      throw error
    }
  })
  assert.ok(writer)
  return writer
}

/** @param makeDatabase makes an earlier database, and tells its place */
async function killAtEach(makeDatabase: (number: number) => Promise<string>): Promise<void> {
  let number = 0
  for (let isKilled = true; isKilled; number += killEvery) {
    const place = await makeDatabase(number)
    isKilled = await killedAt(number, place)
    await using writer = await reopened(place)
    assert.deepEqual(await writer.write((batch) => batch.loadAll('records')), [earlierRecord], `${number}`)
    assert.deepEqual(await writer.write((batch) => batch.loadAll('collectionItems')), [earlierItem])
  }
  assert.ok(number > 15, `${number} statements`)
}

test('on SQLite, a kill within a migration loses nothing', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'migration-kill-'))
  await killAtEach(async (number) => {
    const path = join(directory.path, `${number}.sqlite`)
    await using db = new Kysely({ dialect: new SqliteDialect({ database: new Sqlite(path) }) })
    await makeEarlier(db, 'sqlite')
    return path
  })
})

test('on PostgreSQL, a kill within a migration loses nothing', async () => {
  await using server = await Postgres.start()
  await killAtEach(async (number) => {
    const url = await createDatabase(server, `killed_${number}`)
    const pool = new pg.Pool({ connectionString: url })
    await using db = new Kysely({ dialect: new PostgresDialect({ pool }) })
    await makeEarlier(db, 'postgres')
    return url
  })
})
