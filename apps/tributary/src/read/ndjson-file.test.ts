import assert from 'node:assert/strict'
import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  rmdir,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { ClientEvent } from '@tributary/client/node'
import { commitEvent, identityEvents } from '../../tests/sample-events.ts'
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
    {
      await using file = await NdjsonFile.open(path, 'all')
      assert.equal(file.cursor, 2)
      await file.append(identityEvents(3, 4), 9)
      await file.sync()
      assert.deepEqual(await seqsOf(path), [1, 2, 3, 4])
    }
    await using file = await NdjsonFile.open(path, 'all')
    assert.equal(file.cursor, 9)
  }))

test('a file that another run writes into is refused, and is free when that run ends', () =>
  withDirectory(async (directory) => {
    const path = join(directory, 'out.ndjson')
    {
      await using file = await NdjsonFile.open(path, 'all')
      await file.append(identityEvents(1), 1)
      await assert.rejects(NdjsonFile.open(path, 'all'), {
        name: 'OutputFileError',
        message: `another run writes into ${path}; wait for its end, or name another file`,
      })
      await file.sync()
    }
    assert.deepEqual((await readdir(directory)).toSorted(), ['out.ndjson', 'out.ndjson.progress'])
    await using file = await NdjsonFile.open(path, 'all')
    assert.equal(file.cursor, 1)
    assert.deepEqual(await seqsOf(path), [1])
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

test('a run that was killed before its first note is continued, and a device is not begun', () =>
  withDirectory(async (directory) => {
    const path = join(directory, 'out.ndjson')
    await writeFile(path, '')
    {
      await using file = await NdjsonFile.open(path, 'all')
      assert.equal(file.cursor, 0)
      await file.append(identityEvents(1), 1)
      await file.sync()
    }
    assert.deepEqual(await seqsOf(path), [1])
    const device = join(directory, 'device')
    await symlink('/dev/null', device)
    await assert.rejects(NdjsonFile.open(device, 'all'), /is no backfill that can be continued/)
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

test('a note that is no note of ours ends the run before the file is touched', () =>
  withDirectory(async (directory) => {
    const path = join(directory, 'out.ndjson')
    {
      await using file = await NdjsonFile.open(path, 'all')
      await file.append(identityEvents(1), 1)
      await file.sync()
    }
    const before = await readFile(path, 'utf8')
    const notes = ['{"cursor":1,', 'null', '5', '[]', '{}', '{"cursor":-1,"bytes":0,"selection":"all"}']
    for (const note of notes) {
      await writeFile(`${path}.progress`, note)
      await assert.rejects(NdjsonFile.open(path, 'all'), {
        name: 'OutputFileError',
        message: `${path}.progress cannot be read; remove the file and it to start again`,
      })
      assert.equal(await readFile(path, 'utf8'), before)
    }
  }))

test('a sync that fails while events are written ends the run, and what was noted before stays', () =>
  withDirectory(async (directory) => {
    const path = join(directory, 'out.ndjson')
    const large = (seq: number): ClientEvent => commitEvent(seq, 'large', { text: 'x'.repeat(9_000_000) })
    {
      await using file = await NdjsonFile.open(path, 'all')
      await file.append(identityEvents(1), 1)
      await file.sync()
      // No note can be written here.
      await mkdir(`${path}.progress.tmp`)
      // After so many bytes a sync begins, and the file goes on.
      await file.append([large(2), large(3)], 3)
      await file.append(identityEvents(4), 4)
      await assert.rejects(file.sync(), { code: 'EISDIR' })
    }
    await rmdir(`${path}.progress.tmp`)
    await using file = await NdjsonFile.open(path, 'all')
    assert.equal(file.cursor, 1)
    assert.deepEqual(await seqsOf(path), [1])
  }))

test('what is written is durable without a sync of the caller after so many bytes', () =>
  withDirectory(async (directory) => {
    const path = join(directory, 'out.ndjson')
    {
      await using file = await NdjsonFile.open(path, 'all')
      await file.append([commitEvent(1, 'large', { text: 'x'.repeat(17_000_000) })], 1)
      await file.append(identityEvents(2), 2)
    }
    await using file = await NdjsonFile.open(path, 'all')
    assert.equal(file.cursor, 1)
    assert.deepEqual(await seqsOf(path), [1])
  }))
