import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempDisposableSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { testGroups, writeTestGroups } from './test-groups.ts'
import { root } from './tracked-files.ts'

const passes = "import { test } from 'node:test'\ntest('passes', () => {})\n"

function write(folder: string, files: Record<string, string>): string[] {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
  }
  return Object.keys(files)
}

test('files of one package share processes, but for those that are long or change what belongs to all', () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'tributary-groups-'))
  const changes = [
    'before(() => {})',
    'afterEach(() => {})',
    'process.env.SEED = 1',
    "process.on('exit', print)",
    'mock.timers.enable()',
    'globalThis.WebSocket = Other',
  ]
  const few = ['packages/b/src/z.test.ts', 'packages/b/tests/y.test.ts']
  const many = Array.from({ length: 9 }, (_, i) => `apps/a/src/a${i}.test.ts`)
  const files = write(folder.path, {
    ...Object.fromEntries([...few, ...many].map((file) => [file, passes])),
    ...Object.fromEntries(changes.map((text, i) => [`packages/b/src/changes-${i}.test.ts`, `${text}\n`])),
    'packages/b/tests/starts.process.test.ts': passes,
    'apps/a/tests/world.network.test.ts': passes,
    'apps/a/tests/simulator/simulator.test.ts': passes,
  })
  const groups = testGroups(folder.path, files)
  assert.deepEqual(
    groups.map(({ name, files }) => [name, files.length]),
    [
      ['apps-a-1', 5],
      ['apps-a-2', 4],
      ['packages-b-1', 2],
    ],
  )
  assert.deepEqual(groups.flatMap((group) => group.files).toSorted(), [...many, ...few].toSorted())
})

test('every test of a group runs and fails as in a file of its own', () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'tributary-groups-'))
  const fails = "import { test } from 'node:test'\ntest('fails', () => { throw new Error('wrong') })\n"
  const files = ['a', 'b', 'c'].map((name) => `packages/b/src/${name}.test.mjs`)
  write(folder.path, Object.fromEntries(files.map((file, i) => [file, i === 1 ? fails : passes])))
  const paths = writeTestGroups(folder.path, testGroups(folder.path, files))
  assert.equal(paths.length, 1)
  // The runner of this test would take the inner ones for its own.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const args = ['--import', join(root, 'tools/test-file.mjs'), '--test', '--test-reporter=tap', ...paths]
  const { status, stdout } = spawnSync(process.execPath, args, { env, encoding: 'utf8' })
  assert.equal(status, 1, stdout)
  assert.deepEqual(stdout.match(/^(not )?ok \d.*$/gm), ['ok 1 - passes', 'not ok 2 - fails', 'ok 3 - passes'])
  assert.match(stdout, /packages\/b\/src\/b\.test\.mjs:2/)
})
