/** What a stream has of accounts, held against their hosts: a relay and a stream as processes, and a host that forgets. */
import assert from 'node:assert/strict'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import {
  encodeCar,
  eventually,
  startPlc,
  startProcess,
  startScriptedHost,
  type ScriptedAccount,
  type ServiceProcess,
} from '@tributary/testkit'
import { sealArchive } from '../src/seal.ts'
import { serviceEntry } from '../src/service-entry.ts'
import { Commands, type Outcome } from './commands.ts'

const collection = 'org.impact.collection'
const unwatched = 'com.example.unwatched'
const apiKey = 'verify-test-key-0123456789'
const operatorToken = 'the-operator-token-of-this-test'

await using stack = new AsyncDisposableStack()
const directory = stack.use(await mkdtempDisposable(join(tmpdir(), 'verify-repo-')))
const commands = stack.use(new Commands())
const plc = await startPlc()
stack.defer(() => plc.stop())
const host = stack.use(await startScriptedHost({ plcUrl: plc.url }))
const keyFile = join(directory.path, 'key')
await writeFile(keyFile, apiKey)
const tokenFile = join(directory.path, 'token')
await writeFile(tokenFile, operatorToken)

function start(name: 'relay' | 'stream', settings: Record<string, string>): Promise<ServiceProcess> {
  const common = {
    PORT: '0',
    PLC_URL: plc.url,
    ALLOWED_PRIVATE_HOSTS: host.host,
    LOG_LEVEL: 'warn',
    DATA_DIRECTORY: join(directory.path, name),
  }
  const entries = Object.entries({ ...common, ...settings })
  const env = entries.map(([key, value]) => [`TRIBUTARY_${name.toUpperCase()}_${key}`, value] as const)
  return startProcess(serviceEntry(name), { env: Object.fromEntries(env) })
}

const relay = stack.use(await start('relay', { SOURCES: host.host }))
const stream = stack.use(
  await start('stream', {
    RELAY_URL: relay.url.replace('http', 'ws'),
    COLLECTIONS: collection,
    API_KEYS: `test:${apiKey}`,
    OPERATOR_TOKEN: tokenFile,
  }),
)
const services = stack.move()
after(() => services.disposeAsync())

const network = ['--plc', plc.url, '--allowed-private-hosts', host.host]
const archive = ['--archive', stream.url, '--api-key-file', keyFile]
const verify = (...args: string[]): Promise<Outcome> => commands.run(['verify', ...args, ...network])

/** The faults that are named, without their details. */
function faultsOf({ stdout }: Outcome): string[] {
  return Array.from(
    stdout.matchAll(/^([A-Z]{2,}) (\S+): /gm),
    ([, fault = '', subject = '']) => `${fault} ${subject.split('/').at(-1)}`,
  ).toSorted()
}

async function accountWith(...rkeys: string[]): Promise<ScriptedAccount> {
  const account = await host.createAccount()
  for (const rkey of rkeys) account.create(collection, { title: rkey }, rkey)
  return account
}

async function untilCovered(): Promise<void> {
  await eventually(async () => {
    const answer = await fetch(`${stream.url}/xrpc/network.social.stream.getCoverage`)
    const text = await answer.text()
    return text.includes('"complete"') && !text.includes('"unknown"')
  })
}

test('a repository is compared with what a stream has of it, and each difference is named', async () => {
  // Before there is an account: the backfill asks the relay for those that it is told of, and comes back later when it
  // does not know them yet.
  await untilCovered()
  const account = await accountWith('same', 'other', 'besides')
  account.create(unwatched, { title: 'not of the stream' })
  const { did } = account
  const alone = await verify('--repo', did)
  assert.deepEqual([alone.code, alone.stderr], [0, ''])
  assert.match(
    alone.stdout,
    /^did:\S+ at localhost:\d+: rev \w+, 4 records, signature and tree checked: no faults\n$/,
  )
  // The events are on their way, which is waited for.
  const whole = await verify('--repo', did, ...archive, '--behind', '60')
  assert.deepEqual([whole.code, whole.stderr], [0, ''], whole.stdout)
  assert.match(whole.stdout, /, 4 records, 3 of them compared with the stream through seq \d+: no faults\n$/)

  // The host says nothing of what it does.
  account.commit([
    { action: 'create', collection, rkey: 'lacking', record: { title: 'lacking' } },
    { action: 'update', collection, rkey: 'other', record: { title: 'changed' } },
    { action: 'delete', collection, rkey: 'besides' },
    { action: 'create', collection: unwatched, rkey: 'more', record: {} },
  ])
  const faults = ['DIFFERENT other', 'EXTRA besides', 'MISSING lacking']
  const live = await verify('--repo', did, ...archive, '--behind', '0')
  assert.deepEqual([live.code, faultsOf(live)], [1, faults], live.stderr)
  await sealArchive(stream.url, operatorToken)
  const sealed = await verify('--repo', did, ...archive, '--behind', '0', '--json')
  const report = JSON.parse(sealed.stdout) as { faultCount: number; faults: { fault: string }[] } // as it is printed
  assert.deepEqual([sealed.code, report.faultCount], [1, 3])
  assert.deepEqual(report.faults.map(({ fault }) => fault).toSorted(), ['different', 'extra', 'missing'])

  const other = await accountWith('one')
  const seen = await verify('--repo', other.did, ...archive, '--behind', '60')
  assert.equal(seen.code, 0, seen.stdout + seen.stderr)
  await sealArchive(stream.url, operatorToken)
  const both = await verify(...archive, '--accounts', '5', '--behind', '0')
  assert.deepEqual([both.code, faultsOf(both)], [1, faults], both.stdout + both.stderr)
  assert.match(both.stdout, /^\d segments?, \d+ rows?, up to seq \d+: no damage$/m)
  assert.match(both.stdout, /^2 accounts compared with their hosts: 3 faults\n$/m)
  const one = await verify(...archive, '--accounts', '1', '--behind', '0', '--json')
  const { accounts } = JSON.parse(one.stdout) as { accounts: object[] } // as it is printed
  assert.equal(accounts.length, 1)
})

test('an account that its host took down is held against what the stream shows of it', async () => {
  const account = await accountWith('one')
  const { did } = account
  const seen = await verify('--repo', did, ...archive, '--behind', '60')
  assert.equal(seen.code, 0, seen.stdout + seen.stderr)
  // What is in a file stays there for a while after the account is hidden.
  await sealArchive(stream.url, operatorToken)
  const answer = host.answers
  const method = 'com.atproto.sync.getRepo'
  answer.set(method, (_, response) => {
    response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"RepoTakendown"}')
  })
  const shown = await verify('--repo', did, ...archive, '--behind', '0')
  assert.deepEqual([shown.code, faultsOf(shown)], [1, [`SHOWN ${did}`]], shown.stderr)
  const nothing = await verify('--repo', did)
  assert.deepEqual(
    [nothing.code, /its host says that it is taken down: no faults/.test(nothing.stdout)],
    [1, true],
  )
  account.setStatus('takendown')
  const hidden = await verify('--repo', did, ...archive, '--behind', '60')
  assert.equal(hidden.code, 0, hidden.stdout + hidden.stderr)
  answer.delete(method)
})

test('an entry of a repository that is no record is a fault, whose name is no command for the terminal', async () => {
  const account = await accountWith('one')
  account.commit([{ action: 'create', collection, rkey: 'two\u001b[2J', record: {} }])
  const { code, stdout } = await verify('--repo', account.did)
  assert.equal(code, 1)
  assert.match(stdout, /^WRONG /m)
  assert.equal(/\p{Cc}/u.test(stdout.replaceAll('\n', '')), false, JSON.stringify(stdout))
})

test('a check that cannot be made has an exit code of its own, and so has a wrong command line', async () => {
  const account = await accountWith('one')
  const repo = ['--repo', account.did]
  const nobody = 'http://127.0.0.1:1'
  await writeFile(join(directory.path, 'wrong'), 'no-such-key-0123456789')
  const noHost = await commands.run(['verify', ...repo, '--plc', plc.url])
  assert.deepEqual([noHost.code, /: not checked: /.test(noHost.stdout)], [69, true])
  const noDirectory = await commands.run(['verify', ...repo, '--plc', nobody])
  assert.equal(noDirectory.code, 69, noDirectory.stdout)
  const noKey = await verify(
    ...repo,
    '--archive',
    stream.url,
    '--api-key-file',
    join(directory.path, 'wrong'),
  )
  assert.deepEqual([noKey.code, noKey.stdout], [77, ''], noKey.stderr)
  const noFile = await verify(
    ...repo,
    '--archive',
    stream.url,
    '--api-key-file',
    join(directory.path, 'none'),
  )
  assert.equal(noFile.code, 74, noFile.stderr)
  const contradictions = [
    ['--repo', 'alice'],
    [...repo, '--live', relay.url],
    [...repo, '--accounts', '3', ...archive],
    [...repo, '--behind', '3'],
    [...archive, '--behind', '3'],
    ['--live', relay.url, '--accounts', '3'],
  ]
  for (const args of contradictions) {
    const { code, stdout } = await verify(...args)
    assert.deepEqual([code, stdout], [64, ''], args.join(' '))
  }
})

test('what a stream lacks of a collection that it is still reading is counted, and is no fault', async () => {
  const later = 'org.hyperboards.board'
  const account = await accountWith('one')
  account.create(later, { title: 'before it was watched' }, 'board')
  // What comes after it shows that the stream has passed it.
  account.create(collection, { title: 'after' }, 'after')
  const seen = await verify('--repo', account.did, ...archive, '--behind', '60')
  assert.equal(seen.code, 0, seen.stdout + seen.stderr)
  host.answers.set('com.atproto.sync.getRepo', ({ headers, url = '' }, response) => {
    if (headers['user-agent'] === 'tributary-stream') return void response.writeHead(503).end()
    const asked = host.accounts.get(new URL(url, host.url).searchParams.get('did') ?? '')
    response.end(asked && encodeCar(asked.head.cid, asked.blocks()))
  })
  const operator = ['--url', stream.url, '--operator-token-file', tokenFile]
  const added = await commands.run(['stream', 'collections', 'add', later, ...operator])
  assert.equal(added.code, 0, added.stderr)
  const { code, stdout } = await verify('--repo', account.did, ...archive, '--behind', '60')
  assert.match(stdout, /^not there yet: 1 record of org\.hyperboards\.board \([^\n]+\)$/m)
  assert.equal(code, 0, stdout)
  host.answers.delete('com.atproto.sync.getRepo')
})
