import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { root } from './tracked-files.ts'

/** Runs a test file with this source as test.ts does. */
function runTests(t: TestContext, source: string): { status: number | null; output: string } {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-test-file-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'some.test.ts')
  writeFileSync(file, `import { test } from 'node:test'\n${source}`)
  // The runner of this test would take the inner ones for its own.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const preload = join(root, 'tools', 'test-file.mjs')
  const args = ['--import', preload, '--test', '--test-reporter=tap', file]
  const { status, stdout } = spawnSync(process.execPath, args, { env, encoding: 'utf8' })
  return { status, output: stdout }
}

for (const [what, late] of Object.entries({
  'an error that nobody catches': "setTimeout(() => { throw new Error('late') })",
  'a rejection that nobody handles': "void Promise.reject(new Error('late'))",
}))
  test(`${what} ends its test file at once, and fails it`, (t) => {
    const source = `
      test('waits', () => { ${late}; return new Promise((resolve) => setTimeout(resolve, 1e9)) })
      test('comes later', () => {})`
    const { status, output } = runTests(t, source)
    assert.equal(status, 1, output)
    assert.match(output, /nobody caught Error: late/)
    assert.match(output, /^not ok 1/m)
    assert.doesNotMatch(output, /comes later/)
  })

test('a program that a test forks ends in its own way', (t) => {
  const source = `
    import { fork } from 'node:child_process'
    import { writeFileSync } from 'node:fs'
    import { fileURLToPath } from 'node:url'
    const program = fileURLToPath(new URL('program.mjs', import.meta.url))
    writeFileSync(program, "process.on('uncaughtException', () => process.exit(7)); throw new Error('its own')")
    test('forks', async () => {
      const code = await new Promise((resolve) => fork(program).once('exit', resolve))
      if (code !== 7) throw new Error(String(code))
    })`
  const { status, output } = runTests(t, source)
  assert.equal(status, 0, output)
})

test('a test that fails is told by its name, and the others run', (t) => {
  const source = `
    test('fails', async () => { await null; throw new Error('wrong') })
    test('passes', () => {})`
  const { status, output } = runTests(t, source)
  assert.equal(status, 1, output)
  assert.match(output, /^not ok 1 - fails$/m)
  assert.match(output, /^ok 2 - passes$/m)
})

test('no promise of a test file is followed by the runner', (t) => {
  const source = `
    import { createHook } from 'node:async_hooks'
    const marks = () => Object.getOwnPropertySymbols(Promise.resolve()).length
    test('as it is', () => console.log('marks:', marks()))
    test('with a hook', () => {
      createHook({ init() {} }).enable()
      console.log('marks with a hook:', marks())
    })`
  const { output } = runTests(t, source)
  assert.match(output, /marks: 0$/m)
  assert.match(output, /marks with a hook: [1-9]/)
})
