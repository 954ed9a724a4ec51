import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually, freePort, inTime } from '@tributary/testkit'
import { childEnvironment } from '@tributary/settings'
import type { ServicePlan } from '../src/up/service-plan.ts'
import { type ServiceState, Supervisor } from '../src/up/supervisor.ts'

const good = `
process.on('SIGTERM', () => process.exit(0))
process.on('disconnect', () => process.exit(0))
process.stderr.write(JSON.stringify({ level: 'info', msg: 'here I am' }) + '\\n')
process.send({ ready: true, url: 'http://here' })
setInterval(() => {}, 1000)`

/** Programs in a temporary folder, supervised; everything that was said about them can be waited for. */
class Bench implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'tributary-supervisor-'))
  readonly states: ServiceState[] = []
  readonly lines: string[] = []
  readonly supervisor: Supervisor
  #changed = Promise.withResolvers<void>()

  constructor(program: string, laterEnv: Readonly<Record<string, string>> = {}) {
    const entry = join(this.directory, 'service.mjs')
    writeFileSync(entry, program)
    const plan: ServicePlan = {
      name: 'relay',
      entry,
      env: childEnvironment({}),
      laterEnv,
      given: [],
      notes: [],
      problems: [],
      url: 'http://here',
    }
    this.supervisor = new Supervisor({
      services: [plan],
      restartMs: 1,
      restartMsMax: 50,
      onLine: (_name, line) => this.lines.push(line),
      onState: (_name, state) => {
        this.states.push(state)
        this.#changed.resolve()
        this.#changed = Promise.withResolvers()
      },
    })
  }

  /** The `count`th time that the service was in this state. */
  async seen<K extends ServiceState['is']>(is: K, count = 1): Promise<Extract<ServiceState, { is: K }>> {
    const find = async (): Promise<ServiceState> => {
      for (;;) {
        const found = this.states.filter((state) => state.is === is)[count - 1]
        if (found) return found
        await this.#changed.promise
      }
    }
    const found = await inTime(find(), () => ({ states: this.states, lines: this.lines.slice(-10) }))
    return found as Extract<ServiceState, { is: K }> // filtered by it
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.supervisor[Symbol.asyncDispose]()
    rmSync(this.directory, { recursive: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('a service that is killed comes back, and its lines reach the log', async () => {
  await using bench = new Bench(good)
  await bench.supervisor.start()
  const first = await bench.seen('ready')
  process.kill(first.pid, 'SIGKILL')
  assert.equal((await bench.seen('waiting')).reason, 'signal SIGKILL', 'what it logged before is no reason')
  const second = await bench.seen('ready', 2)
  assert.notEqual(second.pid, first.pid)
  await bench.supervisor[Symbol.asyncDispose]()
  assert.equal(bench.states.at(-1)?.is, 'stopped')
  assert.equal(isAlive(second.pid), false)
  assert.ok(bench.lines.some((line) => line.includes('here I am')))
})

test('what was set for one start counts until the service was ready, and not again', async () => {
  const dead = "if (env.ONCE === undefined && !existsSync(note)) { writeFileSync(note, ''); process.exit(1) }"
  await using bench = new Bench(
    `import { existsSync, writeFileSync } from 'node:fs'
    import { env } from 'node:process'
    const note = import.meta.filename + '.note'
    process.stderr.write('once ' + env.ONCE + '\\n')
    ${dead}${good}`,
    { ONCE: 'false' },
  )
  await bench.supervisor.start()
  const { pid } = await bench.seen('ready')
  process.kill(pid, 'SIGKILL')
  await bench.seen('ready', 2)
  const said = bench.lines.filter((line) => line.startsWith('once'))
  assert.deepEqual(said, ['once undefined', 'once undefined', 'once false'])
})

test('a service whose port is taken is started again until the port is free, and says why it is not', async () => {
  const port = await freePort()
  const other = createServer().listen(port, '127.0.0.1')
  await once(other, 'listening')
  await using bench = new Bench(`
    import { createServer } from 'node:net'
    createServer().on('error', (error) => {
      process.stderr.write(JSON.stringify({ level: 'fatal', err: { message: error.message }, msg: 'could not start' }) + '\\n')
      process.exit(1)
    }).listen(${port}, '127.0.0.1', () => process.send({ ready: true, url: 'http://here' }))
    process.on('disconnect', () => process.exit(0))`)
  await bench.supervisor.start()
  const { reason, delayMs } = await bench.seen('waiting', 12)
  assert.match(reason, /^exit code 1: could not start: listen EADDRINUSE/)
  assert.equal(delayMs, 50, 'the longest wait')
  other.close()
  await bench.seen('ready')
})

test('a service whose settings are wrong is started again after the longest wait only', async () => {
  await using bench = new Bench(`console.error('port: expected an integer'); process.exitCode = 78`)
  await bench.supervisor.start()
  const { reason, delayMs } = await bench.seen('waiting')
  assert.match(reason, /exit code 78: port: expected an integer/)
  assert.equal(delayMs, 50)
})

test('a program that does not exist is no crash of the supervisor', async () => {
  await using bench = new Bench('import "./nothing.mjs"')
  await bench.supervisor.start()
  assert.match((await bench.seen('waiting')).reason, /exit code 1/)
})

test('services end when the supervisor is killed', async () => {
  await using bench = new Bench(good)
  const supervisorUrl = new URL('../src/up/supervisor.ts', import.meta.url).href
  const parent = join(bench.directory, 'parent.ts')
  writeFileSync(
    parent,
    `import { Supervisor } from ${JSON.stringify(supervisorUrl)}
     const supervisor = new Supervisor({
       services: [{ name: 'relay', entry: ${JSON.stringify(join(bench.directory, 'service.mjs'))}, env: {}, given: [], url: '' }],
       onLine: () => {},
       onState: (_name, state) => state.is === 'ready' && process.stdout.write(String(state.pid) + '\\n'),
     })
     await supervisor.start()`,
  )
  const child = spawn(process.execPath, [parent], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [output] = (await once(child.stdout, 'data')) as [Buffer] // what the parent prints
  const pid = Number(output.toString())
  assert.ok(isAlive(pid))
  child.kill('SIGKILL')
  await once(child, 'close')
  await eventually(() => !isAlive(pid))
})
