/** Every program of the READMEs, run as it stands there against a real stream. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { readmeExamples } from './readme-examples.ts'
import { row, rows, StreamServer } from './stream-server.ts'

const last = 12

test('every program of the READMEs reads a stream, archive and live', async () => {
  const examples = readmeExamples()
  assert.ok(examples.length >= 3, `${examples.length} programs`)
  await using server = await StreamServer.start()
  await server.seal(rows(1, 8))
  await server.append(...rows(9, last - 1), row(last))
  for (const { name, code } of examples) {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'readme-'))
    // Most of them go on until they are stopped.
    const told = `globalThis.told = { url: '${server.url}', done: (seqs) => {
      if (seqs.length < ${last}) return
      console.log(JSON.stringify(seqs))
      process.exit(0)
    } }
    const shown = []
    const { log } = console
    console.log = (line) => {
      log(line)
      const { seq } = JSON.parse(line)
      if (seq === undefined) return
      shown.push(seq)
      globalThis.told.done(shown)
    }
    process.chdir(${JSON.stringify(directory.path)})\n`
    const args = ['--input-type=module-typescript', '--eval', told + code]
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: import.meta.dirname })
    const seqs = (JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as number[]).toSorted(
      (one, other) => one - other,
    ) // of `done`
    assert.deepEqual(
      seqs,
      Array.from({ length: last }, (_, i) => i + 1),
      name,
    )
  }
})
