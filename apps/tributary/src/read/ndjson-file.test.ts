import assert from 'node:assert/strict'
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { identityEvents } from '../../tests/sample-events.ts'
import { NdjsonFile } from './ndjson-file.ts'

async function withDirectory(use: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-ndjson-'))
  try {
    await use(directory)
  } finally {
    await rm(directory, { recursive: true })
  }
}

async function seqsOf(path: string): Promise<number[]> {
  const lines = (await readFile(path, 'utf8')).trimEnd().split('\n')
  return lines.map((line) => (JSON.parse(line) as { seq: number }).seq) // written by the class under test
}

test('a run that broke off is continued without a repetition or a torn line', () =>
  withDirectory(async (directory) => {
    const path = join(directory, 'out.ndjson')
    {
      await using file = await NdjsonFile.open(path, 'all')
      await file.append(identityEvents(1, 2), 2)
      await file.sync()
      // Written, but the process ends before the next sync.
      await file.append(identityEvents(3), 3)
    }
    await appendFile(path, '{"kind":"ide')
    await using file = await NdjsonFile.open(path, 'all')
    assert.equal(file.cursor, 2)
    await file.append(identityEvents(3, 4), 9)
    await file.sync()
    assert.deepEqual(await seqsOf(path), [1, 2, 3, 4])
    assert.equal((await NdjsonFile.open(path, 'all')).cursor, 9)
  }))

test('a run that broke off before anything was noted starts at the beginning', () =>
  withDirectory(async (directory) => {
    const path = join(directory, 'out.ndjson')
    {
      await using file = await NdjsonFile.open(path, 'all')
      await file.append(identityEvents(1), 1)
    }
    await using file = await NdjsonFile.open(path, 'all')
    assert.equal(file.cursor, 0)
    assert.equal(await readFile(path, 'utf8'), '')
  }))

test('other files and other selections are left alone', () =>
  withDirectory(async (directory) => {
    const path = join(directory, 'out.ndjson')
    await writeFile(path, 'mine')
    await assert.rejects(NdjsonFile.open(path, 'all'), { name: 'OutputFileError' })
    assert.equal(await readFile(path, 'utf8'), 'mine')
    const own = join(directory, 'own.ndjson')
    await (await NdjsonFile.open(own, 'all'))[Symbol.asyncDispose]()
    await assert.rejects(NdjsonFile.open(own, 'only one collection'), /other filters/)
  }))

test('a file that was removed is begun anew, and one that was cut is not continued with zeros', () =>
  withDirectory(async (directory) => {
    const path = join(directory, 'out.ndjson')
    const run = async (...seqs: number[]): Promise<number> => {
      await using file = await NdjsonFile.open(path, 'all')
      const start = file.cursor
      await file.append(identityEvents(...seqs), seqs.at(-1) ?? 0)
      await file.sync()
      return start
    }
    await run(1, 2)
    await rm(path)
    assert.equal(await run(1, 2), 0)
    assert.deepEqual(await seqsOf(path), [1, 2])
    await writeFile(path, 'mine')
    await assert.rejects(NdjsonFile.open(path, 'all'), /shorter than the last run left it/)
    assert.equal(await readFile(path, 'utf8'), 'mine')
  }))
