import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { inTime } from '@tributary/testkit'
import { childEnvironment } from '@tributary/settings'
import { mainFile, runCli } from './run-cli.ts'

/** A folder for temporary files, so that what is left behind is seen. */
function temporaryFolder() {
  const path = mkdtempSync(join(tmpdir(), 'tributary-demo-test-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

test('the demo finds everything where it should be, and leaves nothing behind', async () => {
  using folder = temporaryFolder()
  const { code, stdout, stderr } = await runCli(['demo', '--once'], { env: { TMPDIR: folder.path } })
  assert.equal(code, 0, `${stdout}\n${stderr}`)
  assert.match(stdout, /everything arrived as the PDSs hold it/)
  assert.doesNotMatch(stdout, /WRONG/)
  assert.deepEqual(readdirSync(folder.path), [])
})

test('the demo ends as cleanly when nobody reads its output any more', async () => {
  using folder = temporaryFolder()
  const child = spawn(process.execPath, [mainFile, 'demo'], {
    env: childEnvironment({ TMPDIR: folder.path }),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  await once(child.stdout, 'data')
  child.stdout.destroy()
  assert.deepEqual(await exited, [0, null])
  assert.deepEqual(readdirSync(folder.path), [])
})

test('one Ctrl-C ends the running demo with everything that it started', async () => {
  using folder = temporaryFolder()
  const child = spawn(process.execPath, [mainFile, 'demo'], {
    env: childEnvironment({ TMPDIR: folder.path }),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  let text = ''
  const introduced = Promise.withResolvers<void>()
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
    if (text.includes('Ctrl-C ends everything')) introduced.resolve()
  })
  await inTime(introduced.promise, () => text)
  const feedUrl = /^feed +(\S+)/m.exec(text)?.[1] ?? ''
  assert.equal((await fetch(`${feedUrl}/ready`)).status, 200)
  child.kill('SIGINT')
  assert.deepEqual(await exited, [0, null])
  for (const [, url] of text.matchAll(/(http:\/\/\S+)/g)) await assert.rejects(fetch(url ?? ''))
  assert.deepEqual(readdirSync(folder.path), [])
})
