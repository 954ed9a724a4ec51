import assert from 'node:assert/strict'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SqliteGenerations } from './sqlite-generations.ts'

test('a switch is on disk when it is said to be done: what the pointer holds, and then its name', async (t) => {
  using directory = fs.mkdtempDisposableSync(join(tmpdir(), 'sqlite-generations-'))
  const calls: string[] = []
  const { renameSync, fsyncSync } = fs
  t.mock.method(fs, 'renameSync', (...args: Parameters<typeof renameSync>) => {
    calls.push('name')
    renameSync(...args)
  })
  t.mock.method(fs, 'fsyncSync', (fd: number) => {
    calls.push(fs.fstatSync(fd).isDirectory() ? 'sync of the directory' : 'sync of the file')
    fsyncSync(fd)
  })
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
  })
  await using generations = new SqliteGenerations(join(directory.path, 'index.sqlite'))
  await generations.switchTo(2)
  assert.deepEqual(calls, ['sync of the file', 'name', 'sync of the directory'])
  assert.equal(await generations.current(), 2)
})

test('a copy whose name ends with its day is no generation, and stays', async () => {
  using directory = fs.mkdtempDisposableSync(join(tmpdir(), 'sqlite-generations-'))
  const path = join(directory.path, 'index.sqlite')
  const [copy, next, later] = ['20261127', '2', '3'].map((end) => `${path}.${end}`)
  assert.ok(copy !== undefined && next !== undefined && later !== undefined)
  for (const file of [path, copy, next, later]) fs.writeFileSync(file, '')
  await using generations = new SqliteGenerations(path)
  const numbers = (await generations.progress()).map(({ generation }) => generation)
  assert.deepEqual(numbers, [1, 2])
  await generations.keepOnly([1])
  assert.deepEqual(
    [path, copy, next, later].map((file) => fs.existsSync(file)),
    [true, true, false, true],
  )
})

test('a generation whose files cannot be removed is told, and goes later, and others go meanwhile', async () => {
  using directory = fs.mkdtempDisposableSync(join(tmpdir(), 'sqlite-generations-'))
  const path = join(directory.path, 'index.sqlite')
  // Nobody removes a directory by accident.
  fs.mkdirSync(`${path}-wal`)
  for (const end of ['', '.2', '.3']) fs.writeFileSync(`${path}${end}`, '')
  await using generations = new SqliteGenerations(path)
  await generations.switchTo(3)
  assert.match((await generations.keepOnly([3]))?.message ?? '', /index\.sqlite-wal/)
  assert.equal(fs.existsSync(`${path}.2`), false)
  fs.rmdirSync(`${path}-wal`)
  assert.equal(await generations.keepOnly([3]), undefined)
})

test('what a kill has left beside a generation that was being removed is removed later', async () => {
  using directory = fs.mkdtempDisposableSync(join(tmpdir(), 'sqlite-generations-'))
  const path = join(directory.path, 'index.sqlite')
  const left = ['-wal', '-shm', '.lock', '.3-wal', '.3-shm', '.3.lock'].map((end) => `${path}${end}`)
  const kept = [`${path}.2`, `${path}.2-wal`, `${path}.20261127-wal`]
  for (const file of [...left, ...kept]) fs.writeFileSync(file, '')
  await using generations = new SqliteGenerations(path)
  await generations.switchTo(2)
  await generations.keepOnly([2])
  assert.deepEqual(
    left.filter((file) => fs.existsSync(file)),
    [],
  )
  assert.deepEqual(
    kept.filter((file) => !fs.existsSync(file)),
    [],
  )
})
