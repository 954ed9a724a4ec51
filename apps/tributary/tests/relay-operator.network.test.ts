import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import {
  eventually,
  startPlc,
  startProcess,
  startScriptedHost,
  type ServiceProcess,
} from '@tributary/testkit'
import { Commands, type Outcome } from './commands.ts'
import { serviceEntry } from '../src/service-entry.ts'

const directory = mkdtempSync(join(tmpdir(), 'operator-'))
const tokenFile = join(directory, 'token')
writeFileSync(tokenFile, 'the-operator-token')
const commands = new Commands()
const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const other = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.7' })
const [relay, elsewhere] = await Promise.all([
  startRelay('one', ''),
  startRelay('two', `${host.host},${other.host}`),
])
after(async () => {
  await commands[Symbol.asyncDispose]()
  await Promise.all([relay.stop(), elsewhere.stop()])
  await Promise.all([host.stop(), other.stop()])
  await plc.stop()
  rmSync(directory, { recursive: true })
})

function startRelay(name: string, sources: string): Promise<ServiceProcess> {
  const settings = {
    PORT: '0',
    DATA_DIRECTORY: join(directory, name),
    PLC_URL: plc.url,
    ALLOWED_PRIVATE_HOSTS: `${host.host},${other.host}`,
    OPERATOR_TOKEN: tokenFile,
    ...(sources && { SOURCES: sources }),
  }
  const env = Object.fromEntries(
    Object.entries(settings).map(([key, value]) => [`TRIBUTARY_RELAY_${key}`, value]),
  )
  return startProcess(serviceEntry('relay'), { env })
}

async function operate(...args: string[]): Promise<Outcome> {
  return await commands.run(['relay', ...args, '--url', relay.url, '--operator-token-file', tokenFile])
}

test('hosts of another relay are imported once, and each is reported', async () => {
  const account = await host.createAccount()
  const status = async (hostname: string) =>
    (await (
      await fetch(`${elsewhere.url}/xrpc/com.atproto.sync.getHostStatus?hostname=${hostname}`)
    ).json()) as { seq: number }
  await eventually(
    async () => (await status(host.host)).seq > 0,
    () => status(host.host),
  )
  const dry = await operate('import-hosts', elsewhere.url, '--dry-run')
  assert.match(dry.stdout, new RegExp(`would be added +${host.host}`), dry.stderr)
  const { stdout, code } = await operate('import-hosts', elsewhere.url)
  assert.equal(code, 0)
  assert.match(stdout, new RegExp(`^added +${host.host}`, 'm'))
  assert.match(stdout, new RegExp(`^skipped +${other.host}: never sent an event there`, 'm'))
  assert.match((await operate('import-hosts', elsewhere.url)).stdout, new RegExp(`^known +${host.host}`, 'm'))
  const shown = () => operate('accounts', 'show', account.did, '--json')
  const isShown = ({ code, stdout }: Outcome): boolean =>
    code === 0 && (JSON.parse(stdout) as { did: string }).did === account.did
  await eventually(async () => isShown(await shown()), shown)
})

test('sources, limits, bans and accounts are changed from the command line, and the audit tells who', async () => {
  assert.match((await operate('hosts', 'list')).stdout, /^HOSTNAME +STATE/)
  const paused = await operate('hosts', 'pause', host.host, '--actor', 'ann', '--json')
  assert.equal(paused.code, 0, paused.stderr)
  assert.match((await operate('hosts', 'show', host.host)).stdout, /^desired +paused$/m)
  const again = await operate('hosts', 'pause', host.host)
  assert.match(again.stdout, /^nothing to change\nhostname[^]*^desired +paused$/m)
  const five = await operate('hosts', 'update', host.host, '--account-quota', '5')
  assert.match(five.stdout, /^hostname[^]*^accountQuota +5$/m)
  const reset = await operate('hosts', 'update', host.host, '--account-quota', 'default')
  assert.equal(reset.code, 0, reset.stderr)
  const seven = ['limits', 'set', '--new-sources-per-day', '7']
  assert.match((await operate(...seven)).stdout, /^newSourcesPerDay +7$/m)
  assert.match((await operate(...seven)).stdout, /^nothing to change\n[^]*^newSourcesPerDay +7$/m)
  assert.match((await operate('limits', 'show')).stdout, /^newSourcesPerDay +7$/m)
  assert.equal((await operate('bans', 'add', 'bad.example', '--reason', 'spam')).code, 0)
  assert.match((await operate('bans', 'list')).stdout, /bad\.example +spam/)
  assert.equal((await operate('bans', 'add', 'bad.example', '--reason', 'more spam')).code, 0)
  const lifted = 'domain    bad.example\nisBanned  false\n'
  assert.equal((await operate('bans', 'remove', 'bad.example')).stdout, lifted)
  assert.equal((await operate('bans', 'remove', 'bad.example')).stdout, `nothing to change\n${lifted}`)
  const audit = await operate('audit', '--limit', '100', '--json')
  const rows = JSON.parse(audit.stdout) as { actor: string; operation: string; before?: unknown }[]
  assert.deepEqual(
    rows.filter(({ operation }) => operation.endsWith('DomainBan')).map(({ before }) => before),
    [{ reason: 'more spam' }, { reason: 'spam' }, undefined],
  )
  assert.ok(rows.some(({ actor, operation }) => actor === 'ann' && operation === 'setHostStatus'))
  assert.match((await operate('state')).stdout, /^headSeq +\d+$/m)
})

test('what the relay refuses ends with 1 and says why', async () => {
  const none = await operate('notices', '--subject', 'nobody.example')
  assert.deepEqual(
    [none.code, none.stderr],
    [0, 'tributary relay notices: nothing fits --subject nobody.example\n'],
  )
  for (const [list, filter, word, meant] of [
    ['refusals', 'reason', 'bad-signatures', 'bad-signature'],
    ['notices', 'kind', 'quota-reach', 'quota-reached'],
  ] as const) {
    const mistyped = await operate(list, `--${filter}`, word)
    const said = `InvalidRequest: there is no ${filter} ${word}: did you mean ${meant}?`
    assert.deepEqual([mistyped.code, mistyped.stderr], [64, `tributary relay ${list}: ${said}\n`])
  }
  const unknown = await operate('hosts', 'pause', 'nobody.tributary.dev')
  assert.deepEqual([unknown.code, unknown.stdout], [1, ''])
  assert.match(unknown.stderr, /^tributary relay hosts pause: HostNotFound/)
  const wrong = await operate('consumers', 'disconnect', 'x')
  assert.equal(wrong.code, 64)
  const badToken = join(directory, 'bad')
  writeFileSync(badToken, 'wrong')
  const refused = await commands.run([
    'relay',
    'state',
    '--url',
    relay.url,
    '--operator-token-file',
    badToken,
  ])
  assert.equal(refused.code, 77)
  assert.match(refused.stderr, /^tributary relay state: AuthenticationRequired/)
  const noToken = join(directory, 'missing')
  for (const command of [['relay', 'state'], ['seal']]) {
    const { code, stderr } = await commands.run([
      ...command,
      '--url',
      relay.url,
      '--operator-token-file',
      noToken,
    ])
    assert.equal(code, 74)
    assert.match(stderr, /: cannot read the operator token: [^(]*missing: no such file or directory$/m)
  }
})

test('the help of the relay names its commands, and each has help of its own', async () => {
  const { stdout } = await commands.run(['relay', '--help'])
  for (const name of [
    'hosts',
    'accounts',
    'bans',
    'consumers',
    'limits',
    'refusals',
    'audit',
    'state',
    'import-hosts',
    'log',
    'backup',
  ])
    assert.match(stdout, new RegExp(`^  ${name} `, 'm'))
  assert.match((await commands.run(['relay', 'hosts', 'add', '--help'])).stdout, /--override-daily-limit/)
})
