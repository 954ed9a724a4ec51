import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { serveLoad, type LoadHost } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { startRelay } from '../lib/services.ts'

const accounts = 1_000_000
const base32 = 'abcdefghijklmnopqrstuvwxyz234567'

/** What a start of the relay takes when it knows a million accounts, and what they take while it runs. */
export async function knownAccounts(bench: Bench): Promise<Figure[]> {
  await using host = await serveLoad({ file: bench.loadFile })
  const directory = bench.newDirectory('relay')
  await startAndLook(bench, host, directory) // makes the databases
  const empty = await startAndLook(bench, host, directory)
  bench.say(`adding ${accounts} accounts`)
  const file = join(directory, 'state.sqlite')
  addAccounts(file)
  const full = await startAndLook(bench, host, directory)
  const rowsMs = readRows(file)
  return [
    {
      name: `relay, start with ${accounts} accounts`,
      value: full.startMs / 1000,
      unit: 's',
      better: 'lower',
      references: [
        { name: 'the same without accounts, this run', value: empty.startMs / 1000 },
        { name: 'their rows alone, one by one by better-sqlite3, this run', value: rowsMs / 1000 },
      ],
    },
    {
      name: `relay, resident with ${accounts} accounts`,
      value: full.bytes / 1e6,
      unit: 'MB',
      better: 'lower',
      references: [{ name: 'the same without accounts, this run', value: empty.bytes / 1e6 }],
    },
  ]
}

/** Starts a relay on a directory, and stops it after some silence. */
async function startAndLook(
  bench: Bench,
  host: LoadHost,
  directory: string,
): Promise<{ startMs: number; bytes: number }> {
  const startedMs = performance.now()
  await using relay = await startRelay(bench, host, { DATA_DIRECTORY: directory })
  const startMs = performance.now() - startedMs
  bench.say(`started after ${startMs.toFixed(0)} ms: ${bench.effort.quietSeconds} s of silence`)
  await new Promise((resolve) => setTimeout(resolve, bench.effort.quietSeconds * 1000))
  return { startMs, bytes: relay.memoryBytes() }
}

/** As the relay stores accounts of its first source that are active and whole. */
function addAccounts(file: string): void {
  const database = new Sqlite(file)
  const insert = database.prepare(
    `INSERT INTO account (did, source_id, upstream_status, rev, commit_digest, data_digest, is_desynchronized)
     VALUES (?, 1, 'active', '3n2xg44rg3c22', ?, ?, 0)`,
  )
  database.transaction(() => {
    for (let n = 0; n < accounts; n++) insert.run(`did:plc:${randomName()}`, randomBytes(32), randomBytes(32))
  })()
  database.pragma('wal_checkpoint(TRUNCATE)')
  database.close()
}

function randomName(): string {
  return Array.from(randomBytes(24), (byte) => base32[byte % 32]).join('')
}

/** Milliseconds for the rows as objects. */
function readRows(file: string): number {
  const database = new Sqlite(file, { readonly: true })
  const startMs = performance.now()
  let bytes = 0
  for (const row of database.prepare<[], { rev: string }>('SELECT * FROM account').iterate())
    bytes += row.rev.length
  const ms = performance.now() - startMs
  database.close()
  if (bytes === 0) throw new Error('there are no accounts')
  return ms
}
