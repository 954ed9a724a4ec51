import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeDirectory } from './make-directory.ts'

test('a directory is made with all above it, and one that is there is left as it is', (t) => {
  const base = mkdtempSync(join(tmpdir(), 'tributary-directory-'))
  t.after(() => rmSync(base, { recursive: true }))
  const path = join(base, 'a', 'b', 'c')
  makeDirectory(path)
  makeDirectory(path)
  assert.ok(statSync(path).isDirectory())
  writeFileSync(join(base, 'file'), '')
  for (const wrong of [join(base, 'file'), join(base, 'file', 'below')])
    assert.throws(() => makeDirectory(wrong), /EEXIST|ENOTDIR/)
})

test('a directory that cannot be made is an error, also in a file system that denies its own', (t) => {
  if (process.platform !== 'linux') return t.skip('there is no /proc')
  for (const path of ['/proc/tributary', '/proc/tributary/data'])
    assert.throws(() => makeDirectory(path), /ENOENT/)
})
