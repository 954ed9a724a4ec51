import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { freePort, startProcess } from './index.ts'

const directory = mkdtempSync(join(tmpdir(), 'tributary-process-'))
after(() => rmSync(directory, { recursive: true }))

function program(name: string, source: string): string {
  const path = join(directory, `${name}.ts`)
  writeFileSync(path, source)
  return path
}

const echo = program(
  'echo',
  `process.on('message', (message) => process.send(message))
   process.on('SIGTERM', () => { console.log('bye'); process.exit(3) })
   console.log(process.argv[2], process.env.FRUIT)
   process.send({ ready: true, url: 'http://localhost:1' })`,
)

test('a child gets arguments and environment, answers messages and ends when asked', async () => {
  await using child = await startProcess(echo, { args: ['hello'], env: { FRUIT: 'pear' } })
  assert.equal(child.url, 'http://localhost:1')
  const answer = child.waitForMessage((message) => message)
  await child.send({ numbers: new Float64Array([1, 2]) })
  assert.deepEqual(await answer, { numbers: new Float64Array([1, 2]) })
  assert.ok(child.cpuSeconds() > 0)
  assert.ok(child.memoryBytes() > 1_000_000)

  assert.deepEqual(await child.stop(), { code: 3, signal: null })
  assert.equal(child.stdout, 'hello pear\nbye\n')
  assert.equal(child.isRunning, false)
})

test('a killed child is gone at once', async () => {
  await using child = await startProcess(echo)
  assert.deepEqual(await child.kill(), { code: null, signal: 'SIGKILL' })
})

test('a child that does not obey is killed', async () => {
  const deaf = program(
    'deaf',
    `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); process.send({ ready: true })`,
  )
  await using child = await startProcess(deaf, { stopTimeoutMs: 10 })
  assert.deepEqual(await child.stop(), { code: null, signal: 'SIGKILL' })
})

test('a child that ends before it is ready is an error that holds its output', async () => {
  const broken = program('broken', `console.error('no such disk'); process.exit(1)`)
  await assert.rejects(startProcess(broken), (error: unknown) => {
    assert.ok(error instanceof Error && error.cause instanceof Error)
    assert.match(error.cause.message, /ended with code 1\nno such disk/)
    return true
  })
})

test('a child that ends unasked after it was ready is printed with its output', async (t) => {
  const print = t.mock.method(console, 'error', () => {})
  const failing = program(
    'failing',
    `process.send({ ready: true }); process.on('message', () => { throw new Error('disk full') })`,
  )
  const child = await startProcess(failing)
  await child.send({})
  await child.exited
  await using obeying = await startProcess(echo)
  await obeying.stop()
  const printed = print.mock.calls.map((call) => String(call.arguments[0]))
  assert.equal(printed.length, 1)
  assert.match(printed[0] ?? '', /failing\.ts \(pid \d+\) ended by itself with code 1\n.*disk full/s)
})

test('children end when their parent is killed', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // reason: a TCP server has an address object.
  const child = program(
    'child',
    `import { connect } from 'node:net'
     connect(${port}, '127.0.0.1').on('error', () => {})
     process.on('disconnect', () => process.exit(0))
     process.send({ ready: true })`,
  )
  const parent = program(
    'parent',
    `import { startProcess } from '${import.meta.resolve('./index.ts')}'
     await startProcess('${child}')`,
  )
  const connected = once(server, 'connection')
  const running = fork(parent)
  const [socket] = await connected
  const closed = once(socket, 'close')
  running.kill('SIGKILL')
  await closed
  server.close()
})

test('ports are below the range of outgoing connections and never handed out twice', async () => {
  const ports = await Promise.all(Array.from({ length: 20 }, () => freePort()))
  assert.equal(new Set(ports).size, 20)
  assert.ok(ports.every((port) => port < 32_768))
})
