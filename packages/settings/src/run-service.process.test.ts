import assert from 'node:assert/strict'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test, type TestContext } from 'node:test'

interface Service {
  child: ChildProcess
  stdout: Promise<string>
  stderr: Promise<string>
  exit: Promise<unknown[]>
}

/** Forks a service whose `start` has the given body, with `settings`, `context` and `running(stop)` in scope. */
function startService(
  t: TestContext,
  body: string,
  args: string[] = [],
  env: Record<string, string> = {},
): Service {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-service-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const index = join(import.meta.dirname, 'index.ts')
  const source = `import { defineSettings, integer, runService } from ${JSON.stringify(index)}
    const spec = defineSettings('TRIBUTARY_RELAY', { port: integer({ default: 2470, doc: 'Listener.' }) })
    const running = (stop) => {
      const held = setInterval(() => {}, 1000)
      return { address: 'http://here', async [Symbol.asyncDispose]() { clearInterval(held); await stop() } }
    }
    await runService('relay', spec, async (settings, context) => { ${body} })`
  writeFileSync(join(folder, 'service.mjs'), source)
  const child = fork(join(folder, 'service.mjs'), args, {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  t.after(() => child.kill('SIGKILL'))
  assert.ok(child.stdout && child.stderr)
  return { child, stdout: text(child.stdout), stderr: text(child.stderr), exit: once(child, 'exit') }
}

const stopsCleanly = "return running(async () => console.log('stopped on ' + settings.port))"

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`a service says when it is ready, and ${signal} stops it with exit code 0`, async (t) => {
    const { child, stdout, exit } = startService(t, stopsCleanly, ['--port', '1'])
    const [message] = await once(child, 'message')
    assert.deepEqual(message, { ready: true, url: 'http://here' })
    child.kill(signal)
    assert.deepEqual(await exit, [0, null])
    assert.equal(await stdout, 'stopped on 1\n')
  })
}

test('a service whose parent is gone stops', async (t) => {
  const { child, stdout, exit } = startService(t, stopsCleanly)
  await once(child, 'message')
  child.disconnect()
  assert.deepEqual(await exit, [0, null])
  assert.equal(await stdout, 'stopped on 2470\n')
})

test('a service that is asked to stop while it starts sees its signal abort, and ends with 0', async (t) => {
  const body = `process.send('starting')
    await new Promise((resolve, reject) => {
      const held = setInterval(() => {}, 1000)
      context.signal.addEventListener('abort', () => { clearInterval(held); reject(context.signal.reason) })
    })`
  const { child, exit } = startService(t, body)
  await once(child, 'message')
  child.kill('SIGTERM')
  assert.deepEqual(await exit, [0, null])
})

test('a service that cannot start, or meets an error nobody handles, logs it and ends with 1', async (t) => {
  const start = startService(t, "throw new Error('the disk is gone')")
  assert.deepEqual(await start.exit, [1, null])
  assert.match(await start.stderr, /"level":"fatal".*the disk is gone.*could not start/)
  const late = startService(
    t,
    "setImmediate(() => Promise.reject(new Error('late'))); return running(async () => {})",
  )
  assert.deepEqual(await late.exit, [1, null])
  assert.match(await late.stderr, /"level":"fatal".*late.*unhandled error/)
})

test('a stop that fails is logged and ends with 1', async (t) => {
  const { child, stderr, exit } = startService(
    t,
    "return running(async () => { throw new Error('will not') })",
  )
  await once(child, 'message')
  child.kill('SIGTERM')
  assert.deepEqual(await exit, [1, null])
  assert.match(await stderr, /will not/)
})

test('wrong settings end it with 78 and every problem on stderr', async (t) => {
  const env = { TRIBUTARY_RELAY_PORT: 'x', TRIBUTARY_NOBODY: '1' }
  const { stderr, exit } = startService(t, stopsCleanly, ['--what'], env)
  assert.deepEqual(await exit, [78, null])
  assert.equal(
    await stderr,
    `tributary relay: settings need attention
  --what: expected a known flag, see --help
  TRIBUTARY_NOBODY="1": expected a variable this program knows, see --help
  TRIBUTARY_RELAY_PORT="x": expected an integer, at least 0
`,
  )
})

test('--help prints every setting and starts nothing', async (t) => {
  const { stdout, exit } = startService(t, stopsCleanly, ['--help'], { TRIBUTARY_RELAY_PORT: 'x' })
  assert.deepEqual(await exit, [0, null])
  assert.match(await stdout, /^Usage: tributary relay \[settings\]\n[^]*--port <value>/)
})

test('--help and reports of wrong settings end as they should when nobody reads them', async (t) => {
  const help = startService(t, stopsCleanly, ['--help'])
  const wrong = startService(t, stopsCleanly, ['--what'])
  help.child.stdout?.destroy()
  wrong.child.stderr?.destroy()
  await Promise.allSettled([help.stdout, wrong.stderr])
  assert.deepEqual(await help.exit, [0, null])
  assert.equal(await help.stderr, '')
  assert.deepEqual(await wrong.exit, [78, null])
})

test('a service whose log nobody reads goes on', async (t) => {
  const { child, stdout, stderr, exit } = startService(t, stopsCleanly)
  child.stderr?.destroy()
  await Promise.allSettled([stderr])
  await once(child, 'message')
  child.kill('SIGTERM')
  assert.deepEqual(await exit, [0, null])
  assert.equal(await stdout, 'stopped on 2470\n')
})

for (const [what, thrown] of Object.entries({
  'while it starts': 'throw full',
  'while it runs': 'setImmediate(() => { throw full }); return running(async () => {})',
}))
  test(`a service whose disk is full ${what} ends and says what to do`, async (t) => {
    const service = startService(
      t,
      `const cause = Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' })
       const full = new Error('it cannot go on', { cause })
       ${thrown}`,
    )
    assert.deepEqual(await service.exit, [1, null])
    assert.match(await service.stderr, /the disk is full.*make room/)
  })
