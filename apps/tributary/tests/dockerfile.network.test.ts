/**
 * The steps of the Dockerfile, one by one, as far as they can be run without Docker: in a folder instead of an image. It is
 * also the test of the command as it is published: packed, installed alone, and run.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtempDisposable, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { childEnvironment } from '@tributary/settings'
import { eventually, freePort, startNetwork } from '@tributary/testkit'
import { LocalRegistry } from '../../../tools/local-registry.ts'
import { root as repository, trackedFiles } from '../../../tools/tracked-files.ts'
import { inFolder, readStages, type Step, textsOf, wordsOf } from './dockerfile.ts'
import { checkInstalled } from './installed-command.ts'

const run = promisify(execFile)
const activity = 'org.impact.claim.activity'
const services = ['relay', 'stream', 'index', 'feed']
const stages = readStages(join(repository, 'Dockerfile'))

function stepsOf(stage: string): readonly Step[] {
  const steps = stages.get(stage)
  assert.ok(steps, `a stage ${stage}`)
  return steps
}

/** The folder for a stage, and how its programs are run there. */
class Image {
  readonly folder: string
  readonly environment: Record<string, string>

  constructor(folder: string, registryUrl: string) {
    this.folder = folder
    const { PATH = '', ...inherited } = childEnvironment({})
    this.environment = {
      ...inherited,
      // Its own programs, then the Node that the image is made with.
      PATH: [join(folder, 'bin'), dirname(process.execPath), PATH].join(delimiter),
      npm_config_prefix: folder,
      npm_config_cache: join(folder, 'root/.npm'),
      npm_config_registry: registryUrl,
    }
  }

  async shell(command: string, directory: string): Promise<void> {
    const options = { cwd: join(this.folder, directory), env: this.environment }
    await run('sh', ['-ec', inFolder(command, this.folder)], options)
  }
}

/** The first stage: makes the package out of the sources. */
async function pack(image: Image): Promise<void> {
  const steps = stepsOf('pack')
  assert.deepEqual(textsOf(steps, 'WORKDIR'), ['/source'])
  assert.deepEqual(textsOf(steps, 'COPY'), ['. .'])
  const source = join(image.folder, 'source')
  for (const file of trackedFiles()) await cp(join(repository, file), join(source, file))
  const [command = ''] = textsOf(steps, 'RUN')
  const [install, ...makes] = command.split(' && ')
  // This needs the network. What it installs is what the lockfile names, and is here.
  assert.equal(install, 'npm ci --ignore-scripts --no-audit --no-fund')
  await symlink(join(repository, 'node_modules'), join(source, 'node_modules'), 'junction')
  for (const make of makes) await image.shell(make, 'source')
}

/** The second stage: installs the package alone. */
async function install(image: Image): Promise<void> {
  const steps = stepsOf('image')
  const [copied = ''] = textsOf(steps, 'COPY')
  await image.shell(copied.replace('--from=pack', 'cp'), '.')
  // The machine gets no user. The folder is that of the one who runs the test.
  await mkdir(join(image.folder, 'bin'), { recursive: true })
  await writeFile(join(image.folder, 'bin/useradd'), '#!/bin/sh\n[ "$*" = "$USER_WANTED" ]\n', {
    mode: 0o755,
  })
  image.environment['USER_WANTED'] = inFolder('--system --uid 10001 --home-dir /data tributary', image.folder)
  const [command = ''] = textsOf(steps, 'RUN')
  assert.match(command, /--owner=tributary --mode=0700 \/data/)
  for (const part of command.split(' && ')) {
    await image.shell(part.replace('--owner=tributary', '--owner=$(id -u)'), '.')
  }
}

/** Whether the health check passes, on these ports in the place of its own. */
async function isHealthy(image: Image, ports: readonly number[]): Promise<boolean> {
  const [check = ''] = textsOf(stepsOf('image'), 'HEALTHCHECK')
  const [program = '', ...args] = wordsOf(check.replace(/^.*? CMD /, ''))
  const onPorts = args.map((arg) => arg.replace(/\[[\d, ]+\]/, JSON.stringify(ports)))
  return await run(program, onPorts, { env: image.environment }).then(
    () => true,
    () => false,
  )
}

test('the steps of the Dockerfile make an image that carries records, also after a kill', async (t) => {
  await using work = await mkdtempDisposable(join(tmpdir(), 'tributary-dockerfile-'))
  const tarballs = join(work.path, 'tarballs')
  const folder = join(work.path, 'image')
  await Promise.all(
    ['tarballs', 'image/source', 'image/tmp', 'image/root/.npm'].map(
      async (name) => await mkdir(join(work.path, name), { recursive: true }),
    ),
  )
  const compiled = ['better-sqlite3', 'secp256k1']
  await using registry = await LocalRegistry.start(compiled, import.meta.filename, tarballs)
  const image = new Image(folder, registry.url)
  await pack(image)
  await install(image)
  await checkInstalled(join(folder, 'lib/node_modules'))

  const steps = stepsOf('image')
  assert.deepEqual(
    steps.map(({ instruction }) => instruction).slice(2),
    ['ENV', 'USER', 'WORKDIR', 'VOLUME', 'EXPOSE', 'HEALTHCHECK', 'STOPSIGNAL', 'ENTRYPOINT', 'CMD'],
    'and it runs as a user of its own',
  )
  for (const text of textsOf(steps, 'ENV')) {
    const [name = '', value = ''] = text.split('=')
    image.environment[name] = inFolder(value, folder)
  }
  const [entrypoint = '', command = ''] = ['ENTRYPOINT', 'CMD'].map((name) => textsOf(steps, name)[0])
  const [program = '', ...words] = [...wordsOf(entrypoint), ...wordsOf(command)]
  const args = words.map((word) => inFolder(word, folder))

  await using network = await startNetwork({ pds: 1, labeler: true })
  const privateHosts = [network.plcUrl, network.labeler.url, ...network.pds.map(({ url }) => url)]
  const ports = await Promise.all(services.map(async () => await freePort()))
  args.push(
    ...services.map((name, at) => `--${name}-port=${ports[at]}`),
    `--plc-url=${network.plcUrl}`,
    `--labelers=${network.labeler.did}`,
    `--sources=${network.pds[0]?.host}`,
    `--allowed-private-hosts=${privateHosts.map((url) => new URL(url).host).join(',')}`,
  )
  const options = { cwd: join(folder, 'data'), env: image.environment }
  let output = ''
  const start = (): ChildProcess => {
    const up = spawn(join(folder, 'bin', program), args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [up.stdout, up.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output += text))
    return up
  }
  const tributary = async (...what: string[]) => {
    const done = await run(join(folder, 'bin', program), what, options).catch((error: unknown) => error)
    return done as { code?: number; stdout: string; stderr: string } // both outcomes have what was written
  }
  const isReady = async (): Promise<boolean> => {
    const { code, stdout } = await tributary('status')
    return code === undefined && stdout.match(/ ready /g)?.length === 4
  }
  const titles = async (limit: number): Promise<string[]> => {
    const url = `http://127.0.0.1:${ports[1]}`
    const flags = ['--cursor', '0', '--kinds', 'commit', '--collections', activity, '--limit', String(limit)]
    const { stdout } = await tributary('tail', '--url', url, ...flags)
    const lines = stdout.trimEnd().split('\n')
    return lines.map((line) => (JSON.parse(line) as { record: { title: string } }).record.title) // of activities
  }
  const account = await network.createAccount()
  const write = async (title: string) =>
    await account.create(activity, { title, shortDescription: 'Short.', createdAt: new Date().toISOString() })

  assert.match((await tributary('--help')).stdout, /^Usage: tributary /)
  const { version } = JSON.parse(await readFile(join(import.meta.dirname, '../package.json'), 'utf8')) as {
    version: string
  } // npm read it before
  assert.equal((await tributary('--version')).stdout, `${version}\n`)
  assert.match((await tributary('demo', '--once')).stderr, /needs the development dependencies/)

  let up = start()
  t.after(() => up.kill('SIGKILL'))
  await eventually(isReady, () => output)
  assert.equal(await isHealthy(image, ports), true, output)
  const health = (await (await fetch(`http://127.0.0.1:${ports[1]}/_health`)).json()) as object // as it is documented
  assert.deepEqual(health, { status: 'ok', version })
  await write('before the kill')
  assert.deepEqual(await titles(1), ['before the kill'])

  up.kill('SIGKILL')
  await once(up, 'exit')
  // Docker ends what a container started; here it ends by itself, and a start before that is refused.
  await eventually(
    async () => !(await isHealthy(image, ports)),
    () => output,
  )
  await eventually(
    async () => {
      if (up.exitCode !== null || up.signalCode !== null) up = start()
      return await isReady()
    },
    () => output,
  )
  await write('after the kill')
  assert.deepEqual(await titles(2), ['before the kill', 'after the kill'])

  const exited = once(up, 'exit')
  up.kill(textsOf(steps, 'STOPSIGNAL')[0] === 'SIGTERM' ? 'SIGTERM' : 'SIGKILL')
  assert.deepEqual(await exited, [0, null], output)
  assert.equal(await isHealthy(image, ports), false, 'the image is not healthy without its services')
})
