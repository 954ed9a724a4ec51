import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { decodeFrame } from '@tributary/protocol'
import { childEnvironment } from '@tributary/settings'
import { inTime, startPlc, startProcess, startScriptedHost, type ServiceProcess } from '@tributary/testkit'
import { WebSocket } from 'ws'
import { serviceEntry } from '../src/service-entry.ts'
import { Commands } from './commands.ts'
import { runCli } from './run-cli.ts'

const commands = new Commands()
const root = mkdtempSync(join(tmpdir(), 'relay-files-'))
const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const account = await host.createAccount()
const original = join(root, 'original')
after(async () => {
  await commands[Symbol.asyncDispose]()
  await host.stop()
  await plc.stop()
  rmSync(root, { recursive: true })
})

async function startRelay(dataDirectory: string, args: string[] = []): Promise<ServiceProcess> {
  const env = childEnvironment({
    TRIBUTARY_RELAY_PORT: '0',
    TRIBUTARY_RELAY_DATA_DIRECTORY: dataDirectory,
    TRIBUTARY_RELAY_PLC_URL: plc.url,
    TRIBUTARY_RELAY_SOURCES: host.host,
    TRIBUTARY_RELAY_ALLOWED_PRIVATE_HOSTS: host.host,
  })
  return startProcess(serviceEntry('relay'), { env, args })
}

interface Seen {
  seq: number
  rev: string
}

/** The commits of a relay from its oldest on, up to and with the one of a revision. */
async function commitsThrough(relay: ServiceProcess, rev: string): Promise<Seen[]> {
  const socket = new WebSocket(
    `${relay.url.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos?cursor=0`,
  )
  const seen: Seen[] = []
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.on('error', reject)
  socket.on('message', (data: Buffer) => {
    const { t, body } = decodeFrame(data)
    if (t !== '#commit') return
    seen.push({ seq: Number(body['seq']), rev: String(body['rev']) })
    if (body['rev'] === rev) resolve()
  })
  await inTime(promise, () => ({ commits: seen.length, last: seen.at(-1), rev })).finally(() =>
    socket.terminate(),
  )
  return seen
}

function write(count: number): string {
  let rev = ''
  for (let i = 0; i < count; i++) ({ rev } = account.create('org.impact.collection', { title: String(i) }))
  return rev
}

function logFile(dataDirectory: string): string {
  const name = readdirSync(join(dataDirectory, 'log')).find((entry) => entry.endsWith('.tlog'))
  return join(dataDirectory, 'log', name ?? '')
}

const cli = (...args: string[]) => commands.run(['relay', ...args])

test('a relay is backed up while it runs, and what is started on the copy goes on without a seq used twice', async () => {
  const relay = await startRelay(original)
  const before = await commitsThrough(relay, write(20))
  const copy = join(root, 'copy')
  const { code, stdout, stderr } = await cli('backup', '--data-directory', original, '--to', copy)
  assert.equal(code, 0, stderr)
  assert.match(stdout, /log through seq \d+, .*state\.sqlite/)
  // What comes after the backup gets numbers that the copy knows nothing of.
  const lastRev = write(20)
  const original40 = await commitsThrough(relay, lastRev)
  await relay.stop()
  const floor = 3_000_000_000
  await using restored = await startRelay(copy, ['--log-floor-seq', String(floor)])
  const seen = await commitsThrough(restored, lastRev)
  assert.deepEqual(
    seen.map(({ rev }) => rev),
    original40.map(({ rev }) => rev),
    'everything is there once, in order',
  )
  assert.deepEqual(seen.slice(0, before.length), before, 'under the numbers it had')
  assert.ok(
    seen.slice(before.length).every(({ seq }) => seq >= floor),
    'or under new ones',
  )
  const again = await cli('backup', '--data-directory', original, '--to', copy)
  assert.equal(again.code, 74)
  assert.match(again.stderr, /exists already/)
})

test('a log is inspected and found whole', async () => {
  const inspect = await cli('log', 'inspect', '--data-directory', original)
  assert.equal(inspect.code, 0)
  assert.match(inspect.stdout, /^0000000000000001\.tlog +1 +(\d+) +\1 +\d+ /m)
  const records = await cli('log', 'inspect', '--data-directory', original, '--records', '--limit', '3')
  const lines = records.stdout.trim().split('\n')
  assert.equal(lines.length, 3)
  const first = JSON.parse(lines[0] ?? '') as Record<string, unknown>
  assert.deepEqual([first['seq'], first['did'], first['type']], [1, account.did, '#identity'])
  const verify = await cli('log', 'verify', '--data-directory', original)
  assert.equal(verify.code, 0)
  assert.match(verify.stdout, /no damage/)
  const report = JSON.parse((await cli('log', 'verify', '--data-directory', original, '--json')).stdout) as {
    files: { records: number }[]
    damage: unknown[]
  } // as it is documented
  assert.ok((report.files[0]?.records ?? 0) > 3)
  assert.deepEqual(report.damage, [])
  const nowhere = await cli('log', 'verify', '--data-directory', join(root, 'nowhere'))
  assert.equal(nowhere.code, 74)
  assert.match(nowhere.stderr, /does not exist/)
})

test('a damaged log stops the start with the commands that repair it; cut, its state is rebuilt', async () => {
  const path = logFile(original)
  const bytes = readFileSync(path)
  bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1)
  writeFileSync(path, bytes)
  const directory = ['--data-directory', original]
  const damaged = await runCli(['relay', ...directory, '--port', '0', '--allowed-private-hosts', host.host])
  assert.equal(damaged.code, 1)
  assert.match(
    damaged.stderr,
    /is damaged at byte \d+.*tributary relay log verify.*tributary relay log repair/,
  )
  const verify = await cli('log', 'verify', ...directory)
  assert.equal(verify.code, 1)
  assert.match(verify.stdout, /DAMAGED 0000000000000001\.tlog at byte \d+/)
  const asked = await cli('log', 'repair', ...directory)
  assert.equal(asked.code, 1)
  assert.match(asked.stderr, /nothing was changed/)
  assert.deepEqual(readFileSync(path), bytes)

  const repaired = await cli('log', 'repair', ...directory, '--cut')
  assert.equal(repaired.code, 0, repaired.stderr)
  // Where a block ends depends on what was written at once: the records of the damaged one may not be countable.
  assert.match(
    repaired.stdout,
    /1 file replaced, \d+ records? kept, (?:[1-9]\d* lost|0 lost, not counting those in \d+ bytes that cannot be read)[,;]? /,
  )
  assert.match(repaired.stdout, /--rebuild-state/)
  assert.ok(existsSync(`${path}.damaged`))
  const ahead = await runCli(['relay', ...directory, '--port', '0', '--allowed-private-hosts', host.host])
  assert.equal(ahead.code, 1)
  assert.match(ahead.stderr, /the state is ahead of the log.*--rebuild-state/)

  await using rebuilt = await startRelay(original, ['--rebuild-state'])
  const seen = await commitsThrough(rebuilt, write(1))
  const locked = await cli('log', 'repair', ...directory, '--skip')
  assert.equal(locked.code, 1)
  assert.match(locked.stderr, /stop the relay first/)
  const revs = seen.map(({ rev }) => rev)
  assert.deepEqual(revs, [...new Set(revs)].toSorted(), 'everything once, in order')
  assert.equal(revs.length, 42, 'what was lost from the log is read from the source again')
})
