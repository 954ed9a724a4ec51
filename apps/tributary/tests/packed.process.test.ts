/** The command as it is published: packed, installed alone into an empty folder, and run. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtempDisposable, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { childEnvironment } from '@tributary/settings'
import { eventually, freePort } from '@tributary/testkit'
import { LocalRegistry } from '../../../tools/local-registry.ts'
import { packProgram } from '../../../tools/pack.ts'

const run = promisify(execFile)
/** With all that they need themselves: the command, and two that bring compiled code. */
const packagesMax = 30
const bytesMax = 60_000_000

/** Bytes of all files in a directory, and how many of them are the manifest of a package. */
async function sizeOf(directory: string): Promise<{ bytes: number; packages: number }> {
  const files = await readdir(directory, { recursive: true, withFileTypes: true })
  let bytes = 0
  for (const file of files) if (file.isFile()) bytes += (await stat(join(file.parentPath, file.name))).size
  const isPackage = /(^|\/)node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/
  const packages = files.filter((file) => isPackage.test(join(file.parentPath, file.name))).length
  return { bytes, packages }
}

test('the packed command installs alone, runs up, survives a kill, and prints its status', async () => {
  await using work = await mkdtempDisposable(join(tmpdir(), 'tributary-packed-'))
  const project = join(work.path, 'project')
  const tarballs = join(work.path, 'tarballs')
  await Promise.all([mkdir(project), mkdir(tarballs)])
  const tarball = packProgram(join(work.path, 'packed'))
  const list = await run('tar', ['xzOf', tarball, 'package/package.json'])
  const { dependencies } = JSON.parse(list.stdout) as { dependencies: Record<string, string> } // as it was packed
  const names = Object.keys(dependencies)
  assert.deepEqual(
    names.filter((name) => name.startsWith('@tributary/')),
    [],
  )
  await using registry = await LocalRegistry.start(names, import.meta.filename, tarballs)
  await writeFile(join(project, 'package.json'), JSON.stringify({ name: 'empty', private: true }))
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--registry', registry.url]
  await run('npm', ['install', tarball, ...options, '--cache', join(work.path, 'cache')], { cwd: project })
  const { bytes, packages } = await sizeOf(join(project, 'node_modules'))
  assert.ok(bytes < bytesMax, `${bytes} bytes`)
  assert.ok(packages <= packagesMax, `${packages} packages`)

  const bundled = join(project, 'node_modules/tributary/dist/bundled')
  const imports = (await readdir(bundled)).filter((name) => name.endsWith('.js'))
  assert.ok(imports.includes('pg.js'), 'also what only some settings need')
  const importAll = imports.map((name) => `await import('./${name}')`).join('\n')
  await run(process.execPath, ['--input-type=module', '--eval', importAll], { cwd: bundled })
  const compress = `const { createDictionaryEncoder, eventDictionary } = await import('../packages/zstd-dictionary/src/index.js')
    await createDictionaryEncoder(eventDictionary().bytes)`
  await run(process.execPath, ['--input-type=module', '--eval', compress], { cwd: bundled })
  const licences = await readFile(join(bundled, 'LICENSES.txt'), 'utf8')
  assert.match(licences, /^# pg \d+\.\d+\.\d+ \(MIT\)\n\nMIT License\n/m)

  const command = join(project, 'node_modules/tributary/bin/tributary.mjs')
  const tributary = async (...args: string[]) => {
    const options = { cwd: project, env: childEnvironment({}) }
    const done = await run(process.execPath, [command, ...args], options).catch((error: unknown) => error)
    return done as { code?: number; stdout: string; stderr: string } // both outcomes have them
  }
  assert.match((await tributary('--help')).stdout, /^Usage: tributary /)
  const { version } = JSON.parse(await readFile(join(import.meta.dirname, '../package.json'), 'utf8')) as {
    version: string
  } // npm read it before
  assert.equal((await tributary('--version')).stdout, `${version}\n`)
  const demo = await tributary('demo', '--once')
  assert.match(demo.stderr, /needs the development dependencies/)

  const data = join(work.path, 'data')
  const services = ['relay', 'stream', 'index', 'feed']
  const free = await Promise.all(services.map(async () => await freePort()))
  const ports = services.map((name, at) => `--${name}-port=${free[at]}`)
  const up = spawn(
    process.execPath,
    [command, 'up', '--data-directory', data, '--plc-url', 'http://127.0.0.1:1', ...ports],
    {
      cwd: project,
      env: childEnvironment({}),
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const exited = once(up, 'exit')
  let output = ''
  for (const stream of [up.stdout, up.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  try {
    const isReady = async (): Promise<boolean> => {
      const { code, stdout } = await tributary('status', '--data-directory', data)
      return code === undefined && stdout.match(/ ready /g)?.length === 4
    }
    await eventually(isReady, () => output)
    const url = /^stream +ready +(\S+)/m.exec(output)?.[1]
    const health = (await (await fetch(`${url}/_health`)).json()) as object // as it is documented
    assert.deepEqual(health, { status: 'ok', version })
    const pids = [...output.matchAll(/^stream +ready .*\(pid (\d+)\)/gm)]
    const pid = Number(pids.at(-1)?.[1])
    assert.ok(pid > 0, output)
    process.kill(pid, 'SIGKILL')
    await eventually(
      () => /^stream +waiting +starts again .*SIGKILL/m.test(output),
      () => output,
    )
    await eventually(isReady, () => output)
  } finally {
    up.kill('SIGTERM')
  }
  assert.deepEqual(await exited, [0, null], output)
  assert.match(await readFile(join(data, 'archive-key'), 'utf8'), /\S{16,}/)
})
