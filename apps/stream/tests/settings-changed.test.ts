/** What a start does with settings that differ from those of the start before. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startTestStream } from './start-test-stream.ts'

test('a key that has left the settings is refused from the next start on', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'settings-changed-'))
  const statusWith = async (apiKeys: string[]): Promise<number> => {
    await using stream = await startTestStream({ dataDirectory: directory.path, apiKeys })
    const headers = { Authorization: 'Bearer the-key-of-a-reader' }
    return (await stream.archive('listSegments', { headers })).status
  }
  const keys = ['reader:the-key-of-a-reader', 'other:the-key-of-another']
  assert.deepEqual(
    [await statusWith(keys), await statusWith(keys.slice(1)), await statusWith(keys)],
    [200, 401, 200],
  )
})

test('collections that have changed in the settings are named in the log, and not followed', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'settings-changed-'))
  const warnings = async (collections: string[]): Promise<unknown[]> => {
    const lines: string[] = []
    const destination = { write: (line: string) => void lines.push(line) }
    await using _ = await startTestStream({ dataDirectory: directory.path, collections }, destination)
    const entries = lines.map((line) => JSON.parse(line) as Record<string, unknown>) // as the logger writes them
    return entries.flatMap(({ added, removed }) => (added ? [{ added, removed }] : []))
  }
  assert.deepEqual(await warnings(['app.a.b', 'app.c.d']), [])
  assert.deepEqual(await warnings(['app.c.d', 'app.a.b']), [])
  assert.deepEqual(await warnings(['app.c.d', 'app.e.f']), [{ added: ['app.e.f'], removed: ['app.a.b'] }])
})
