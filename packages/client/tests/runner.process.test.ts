/** The runner in processes of its own that are killed while they read a real stream, archive and live. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempDisposable, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { FileStore, type RunnerStore, SqliteStore } from '../src/node.ts'
import { rows, StreamServer } from './stream-server.ts'

const program = join(import.meta.dirname, 'runner-program.ts')
const throughSeq = 300
const killsMin = 3

for (const kind of ['file', 'sqlite'] as const) {
  test(`an indexer with a store in ${kind} that is killed again and again handles every event`, async (t) => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'runner-'))
    await using server = await StreamServer.start()
    await server.seal(rows(1, 50), rows(51, 150))
    await server.append(...rows(151, throughSeq))
    const seed = Math.floor(Math.random() * 1e9)
    t.diagnostic(`seed ${seed}`)
    let kills = 0
    for (let life = 0, isDone = false; !isDone; life++) {
      // From a seed, how many events are handled before the kill. The last lives are left alone.
      const deadline = life < 2 * killsMin ? 1 + ((seed * (life + 1) * 7919) % 60) : Infinity
      isDone = await live(server.url, directory.path, kind, deadline)
      if (!isDone) kills++
      const handled = await handledSeqs(directory.path)
      const cursor = (await storedCursor(server.url, directory.path, kind)) ?? 0
      for (let seq = 1; seq <= cursor; seq++)
        assert.ok(handled.has(seq), `cursor ${cursor} is past ${seq}, which nobody handled`)
      if (isDone) assert.deepEqual([handled.size, cursor], [throughSeq, throughSeq])
    }
    assert.ok(kills >= killsMin, `${kills} kills`)
  })
}

/** Runs the indexer until it ends, or kills it when it has handled so many. Resolves with whether it ended by itself. */
async function live(url: string, directory: string, kind: string, deadline: number): Promise<boolean> {
  const child = spawn(process.execPath, [program, url, directory, kind, String(throughSeq)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let handled = 0
  child.stdout.on('data', (dots: Buffer) => {
    handled += dots.length
    if (handled >= deadline) child.kill('SIGKILL')
  })
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null] // as documented
  assert.ok(code === 0 || signal === 'SIGKILL', `it ended with ${code}`)
  return code === 0
}

async function handledSeqs(directory: string): Promise<Set<number>> {
  const text = await readFile(join(directory, 'handled'), 'utf8')
  return new Set(text.trim().split('\n').map(Number))
}

async function storedCursor(
  url: string,
  directory: string,
  kind: 'file' | 'sqlite',
): Promise<number | undefined> {
  if (kind === 'file') return await new FileStore(join(directory, 'cursor'), url).load()
  using database = new DatabaseSync(join(directory, 'cursor.sqlite'))
  const store: RunnerStore = new SqliteStore(database, { server: url })
  return await store.load()
}
