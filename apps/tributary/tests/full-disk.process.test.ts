/** Commands on a disk without room. It needs a file system of its own, and so the right to mount one. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { EventLog } from '@tributary/event-log'
import { childEnvironment } from '@tributary/settings'
import { mainFile, runCli } from './run-cli.ts'

/** A file system in memory without room, or undefined where none can be mounted. */
function mountFull(): (Disposable & { path: string }) | undefined {
  const path = mkdtempSync(join(tmpdir(), 'full-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', path], { stdio: 'pipe' })
  } catch {
    rmdirSync(path)
    return undefined
  }
  assert.throws(() => writeFileSync(join(path, 'filler'), Buffer.alloc(100_000)), { code: 'ENOSPC' })
  return {
    path,
    [Symbol.dispose]() {
      execFileSync('umount', [path])
      rmdirSync(path)
    },
  }
}

test('a command that finds no room says so, and leaves nothing that is in the way of the next one', async (t) => {
  using disk = mountFull()
  if (disk === undefined) return t.skip('a file system cannot be mounted here')
  const directory = mkdtempSync(join(tmpdir(), 'tributary-full-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const before = readdirSync(disk.path)
  const settings = join(disk.path, 'settings.json')
  const init = spawnSync(process.execPath, [mainFile, 'init', '--output', settings], {
    input: '\n'.repeat(5),
    env: childEnvironment({}),
    encoding: 'utf8',
  })
  assert.deepEqual([init.status, init.stdout], [74, ''], init.stderr)
  assert.match(init.stderr, / tributary init: the disk is full: make room and run it again\n$/)

  const relay = join(directory, 'relay')
  mkdirSync(relay)
  await (await EventLog.open({ directory: join(relay, 'log') })).close()
  const state = new DatabaseSync(join(relay, 'state.sqlite'))
  state.exec('create table t (a)')
  state.close()
  const backup = await runCli(['relay', 'backup', '--data-directory', relay, '--to', join(disk.path, 'copy')])
  assert.deepEqual([backup.code, backup.stdout], [74, ''], backup.stderr)
  assert.match(backup.stderr, /^tributary relay backup: the disk is full: make room and run it again\n$/)
  assert.deepEqual(readdirSync(disk.path), before)

  const service = await runCli(['relay', '--data-directory', join(disk.path, 'relay'), '--port', '0'])
  assert.equal(service.code, 1)
  assert.match(service.stderr, /"msg":"the disk is full, so the service has ended; make room/)
  assert.doesNotMatch(service.stderr, /another process/)
})
