import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openGenerations, openIndexWriter } from '@tributary/index-store'
import { openPresent } from './open-present.ts'

test('an index that waits for a lock while another one switches opens what is present then', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'open-present-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'index.sqlite')
  await using generations = openGenerations(path)
  const opened: number[] = []
  const { number, writer } = await openPresent(generations, async (generation) => {
    if (opened.length === 0) await generations.switchTo(2)
    opened.push(generation)
    return openIndexWriter(path, { generation })
  })
  await writer[Symbol.asyncDispose]()
  assert.deepEqual([number, opened], [2, [1, 2]])
})
