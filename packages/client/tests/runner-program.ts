/**
 * An indexer that a test kills: `runner-program.ts URL DIRECTORY file|sqlite THROUGH_SEQ`. It writes the seq of each event
 * to the file `handled` when it has dealt with it, and says so on stdout.
 */
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createStreamClient, FileStore, runIndexer, type RunnerStore, SqliteStore } from '../src/node.ts'

const [url = '', directory = '', kind = '', throughSeq = ''] = process.argv.slice(2)
let calls = 0

async function handle({ seq }: { seq: number }): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
  if (++calls % 7 === 0) throw new Error('this handler fails now and then')
  appendFileSync(join(directory, 'handled'), `${seq}\n`)
  process.stdout.write('.')
}

function openStore(): RunnerStore {
  if (kind === 'file') return new FileStore(join(directory, 'cursor'), url)
  return new SqliteStore(new DatabaseSync(join(directory, 'cursor.sqlite')), { server: url })
}

await runIndexer({
  client: createStreamClient({ url, retry: { firstMs: 10, maxMs: 50 } }),
  store: openStore(),
  handlers: { collections: { 'org.impact.*': { put: handle, delete: handle } } },
  retry: { firstMs: 1, maxMs: 5, attemptsMax: 20 },
  pendingMax: 50,
  read: { throughSeq: Number(throughSeq) },
  onReport: () => undefined,
})
