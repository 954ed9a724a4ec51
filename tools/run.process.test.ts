import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test, type TestContext } from 'node:test'
import { root } from './tracked-files.ts'

function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-run-'))
  t.after(() => rmSync(folder, { recursive: true }))
  return folder
}

/** Starts run.mjs on a program with the given source. */
function runProgram(
  t: TestContext,
  source: string,
  ...args: string[]
): ChildProcess & { output: Promise<string> } {
  const entry = join(temporaryFolder(t), 'program.ts')
  writeFileSync(entry, source)
  const child = spawn(process.execPath, [join(root, 'tools', 'run.mjs'), entry, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  // Ends only when the last process that holds the pipe has ended, so it also shows that nothing was left behind.
  return Object.assign(child, { output: text(child.stdout) })
}

async function nextOutput(child: ChildProcess): Promise<void> {
  assert.ok(child.stdout)
  await once(child.stdout, 'data')
}

test('arguments and the exit code pass through', async (t) => {
  const child = runProgram(t, 'console.log(process.argv.slice(2).join()); process.exitCode = 7', '--a', 'b c')
  assert.deepEqual(await once(child, 'exit'), [7, null])
  assert.equal(await child.output, '--a,b c\n')
})

test('a signal that ends the program ends the runner in the same way', async (t) => {
  const child = runProgram(t, "process.kill(process.pid, 'SIGKILL')")
  assert.deepEqual(await once(child, 'exit'), [null, 'SIGKILL'])
})

const countsSignals = `
let interrupts = 0
process.on('SIGINT', () => console.log('interrupted', ++interrupts))
process.on('SIGTERM', () => { console.log(interrupts); process.exit(0) })
setInterval(() => {}, 1000)
console.log('ready')`

test('a Ctrl-C that arrives from the terminal and from npm is one for the program', async (t) => {
  const child = runProgram(t, countsSignals)
  await nextOutput(child)
  child.kill('SIGINT')
  child.kill('SIGINT')
  // Signals that are pending together are handled in any order.
  await nextOutput(child)
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'exit'), [0, null])
  assert.equal(await child.output, 'ready\ninterrupted 1\n1\n')
})

test('when the runner is killed the program is asked to end', async (t) => {
  const child = runProgram(t, countsSignals)
  await nextOutput(child)
  child.kill('SIGKILL')
  assert.equal(await child.output, 'ready\n0\n')
})

test('what the program started and left behind ends with it', async (t) => {
  const child = runProgram(
    t,
    `import { spawn } from 'node:child_process'
    const left = spawn(process.execPath, ['-e', 'console.log(1); setInterval(() => {}, 1000)'], { stdio: ['ignore', 'pipe', 'ignore'] })
    spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'inherit' })
    left.stdout.once('data', () => process.exit(0))`,
  )
  assert.deepEqual(await once(child, 'exit'), [0, null])
  assert.equal(await child.output, '')
})

/** A repository with the program's workspace, another one that only developers need, and nothing to download, not installed yet. */
function freshClone(t: TestContext): { folder: string; lock: (packages: Record<string, unknown>) => void } {
  const folder = temporaryFolder(t)
  cpSync(join(root, 'tools'), join(folder, 'tools'), { recursive: true })
  const manifest = { name: 'clone', version: '1.0.0', workspaces: ['apps/*', 'bench'] }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  for (const [path, name] of [
    ['apps/tributary', 'tributary'],
    ['bench', 'bench'],
  ] as const) {
    mkdirSync(join(folder, path), { recursive: true })
    writeFileSync(join(folder, path, 'package.json'), JSON.stringify({ name, version: '1.0.0' }))
  }
  writeFileSync(join(folder, 'program.ts'), "const word: string = 'ran'\nconsole.log(word)\n")
  const lock = (packages: Record<string, unknown>): void => {
    const content = {
      name: 'clone',
      version: '1.0.0',
      lockfileVersion: 3,
      requires: true,
      packages: { '': manifest, ...packages },
    }
    writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(content))
  }
  lock({
    'node_modules/tributary': { resolved: 'apps/tributary', link: true },
    'apps/tributary': { name: 'tributary', version: '1.0.0' },
    'node_modules/bench': { resolved: 'bench', link: true },
    bench: { version: '1.0.0' },
  })
  return { folder, lock }
}

async function runClone(
  folder: string,
  ...args: string[]
): Promise<{ code: unknown; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [join(folder, 'tools', 'run.mjs'), 'program.ts', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [[code], stdout, stderr] = await Promise.all([
    once(child, 'exit'),
    text(child.stdout),
    text(child.stderr),
  ])
  return { code, stdout, stderr }
}

test('a fresh clone installs itself once, says so, and keeps stdout for the program', async (t) => {
  const { folder } = freshClone(t)
  const first = await runClone(folder)
  assert.match(first.stderr, /node_modules is missing or incomplete; running npm ci --ignore-scripts/)
  assert.deepEqual([first.code, first.stdout], [0, 'ran\n'])
  assert.deepEqual(await runClone(folder), { code: 0, stdout: 'ran\n', stderr: '' })
})

test('what only developers and the demo need is installed when they need it', async (t) => {
  const { folder } = freshClone(t)
  const isInstalled = (name: string): boolean => existsSync(join(folder, 'node_modules', name))
  assert.equal((await runClone(folder)).code, 0)
  assert.deepEqual([isInstalled('tributary'), isInstalled('bench')], [true, false])
  const demo = await runClone(folder, 'demo')
  assert.match(demo.stderr, /what only demo, tests and benchmarks use is not installed; running npm ci/)
  assert.deepEqual([demo.code, isInstalled('bench')], [0, true])
  assert.equal((await runClone(folder)).stderr, '', 'more than is needed is no fault')
})

test('when the install fails the program does not start and the exit code is npm’s', async (t) => {
  const { folder, lock } = freshClone(t)
  lock({})
  const { code, stdout, stderr } = await runClone(folder)
  assert.equal(stdout, '')
  assert.match(stderr, /npm ci failed with exit code 1/)
  assert.equal(code, 1)
})
