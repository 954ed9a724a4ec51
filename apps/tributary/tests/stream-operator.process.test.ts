import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startProcess } from '@tributary/testkit'
import { serviceEntry } from '../src/service-entry.ts'
import { Commands, type Outcome } from './commands.ts'

test('a stream is operated from the command line, and the audit tells who did what', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'stream-operator-'))
  await using commands = new Commands()
  const tokenFile = join(directory.path, 'token')
  await writeFile(tokenFile, 'the-operator-token')
  const [did, nobody] = ['did:plc:abcdefghijklmnopqrstuvwx', 'did:plc:22222222222222222222222a']
  // A relay that knows one account, and sends nothing.
  const relay = createServer(({ url = '' }, response) => {
    const isKnown = url.endsWith(`getRepoStatus?did=${encodeURIComponent(did)}`)
    const answer = isKnown ? { did, active: true } : { error: 'RepoNotFound' }
    response
      .writeHead(isKnown ? 200 : 400, { 'content-type': 'application/json' })
      .end(JSON.stringify(answer))
  })
  await once(relay.listen(0, '127.0.0.1'), 'listening')
  const settings = {
    PORT: '0',
    DATA_DIRECTORY: join(directory.path, 'stream'),
    RELAY_URL: `ws://127.0.0.1:${(relay.address() as AddressInfo).port}`, // as it listens
    COLLECTIONS: 'org.impact.collection',
    OPERATOR_TOKEN: tokenFile,
  }
  const env = Object.fromEntries(
    Object.entries(settings).map(([key, value]) => [`TRIBUTARY_STREAM_${key}`, value]),
  )
  const stream = await startProcess(serviceEntry('stream'), { env })
  const operate = async (...args: string[]): Promise<Outcome> =>
    await commands.run(['stream', ...args, '--url', stream.url, '--operator-token-file', tokenFile])
  try {
    const added = await operate('collections', 'add', 'org.hyperboards.board', '--actor', 'ann')
    assert.deepEqual([added.code, added.stderr], [0, ''])
    assert.match(added.stdout, /^isWatched +true\naddedRevision +2\nactor +ann\naddedAt +\S+\n$/m)
    const again = await operate('collections', 'add', 'org.hyperboards.board')
    assert.deepEqual([again.code, again.stderr, again.stdout], [0, '', `nothing to change\n${added.stdout}`])
    const asJson = await operate('collections', 'add', 'org.hyperboards.board', '--json')
    const { addedAt: _, ...now } = JSON.parse(asJson.stdout) as Record<string, unknown> // the command prints an object
    assert.deepEqual(now, {
      revision: 2,
      collection: 'org.hyperboards.board',
      isWatched: true,
      addedRevision: 2,
      actor: 'ann',
      isChanged: false,
    })
    assert.match((await operate('collections', 'list')).stdout, /^org\.hyperboards\.board .* 2 +ann$/m)
    const removed = await operate(
      'collections',
      'remove',
      'org.impact.collection',
      '--expected-revision',
      '2',
    )
    assert.equal(removed.code, 0, removed.stderr)
    const isGone = 'revision    3\ncollection  org.impact.collection\nisWatched   false\n'
    assert.equal(removed.stdout, isGone)
    const goneAgain = await operate('collections', 'remove', 'org.impact.collection')
    assert.deepEqual([goneAgain.code, goneAgain.stdout.startsWith('nothing to change\n')], [0, true])
    assert.match((await operate('audit')).stdout, /ann +addCollection +org\.hyperboards\.board/)
    const none = await operate('jobs', 'pause', '7')
    assert.equal(none.code, 1)
    const listing = 'the list of jobs has them all (tributary stream jobs list)'
    assert.equal(none.stderr, `tributary stream jobs pause: JobNotFound: there is no job 7: ${listing}\n`)
    const unlisted = await operate('jobs', 'start', '--hostname', 'pds.example.com')
    assert.match(unlisted.stderr, /HostNotApproved/)
    assert.equal((await operate('repos', 'refetch', did)).code, 0)
    const unknown = await operate('repos', 'refetch', nobody)
    assert.deepEqual([unknown.code, unknown.stdout], [1, ''])
    assert.match(unknown.stderr, /: RepoNotFound: neither this stream nor its relay knows did:/)
    assert.match((await operate('repos', 'show', did)).stdout, /^isMarked +true$/m)
    assert.match((await operate('coverage')).stdout, /^HOSTNAME +COLLECTIONS +STATUS/)
    const made = await operate('keys', 'create', 'a reader', '--megabytes-per-day', '7', '--json')
    const { id, key } = JSON.parse(made.stdout) as { id: number; key: string } // by its lexicon
    const listed = (await operate('keys', 'list')).stdout
    assert.match(listed, new RegExp(`^${id} +a reader`, 'm'))
    assert.equal(listed.includes(key), false)
    assert.match((await operate('keys', 'revoke', String(id))).stdout, /^revokedAt +\S+$/m)
    assert.match((await operate('keys', 'revoke', String(id))).stdout, /^nothing to change$/m)
    assert.match(
      (await operate('keys', 'revoke', 'mine')).stderr,
      /"mine" is no id, which is a whole number\n$/,
    )
    const { port } = new URL(stream.url)
    const reader = new WebSocket(
      `ws://127.0.0.1:${port}/xrpc/network.social.stream.subscribeEvents?kinds=commit`,
    )
    await once(reader, 'open')
    assert.match((await operate('subscribers', 'list')).stdout, /^1 +127\.0\.0\.1 +live .* commit /m)
    const [shown] = JSON.parse((await operate('subscribers', 'list', '--json')).stdout) as {
      filter: object
    }[] // by its lexicon
    assert.deepEqual(shown?.filter, { kinds: ['commit'], collections: [], dids: [], didCount: 0 })
    const closed = once(reader, 'close')
    assert.equal((await operate('subscribers', 'disconnect', '1')).code, 0)
    const [{ code }] = (await closed) as [{ code: number }] // of a WebSocket
    assert.equal(code, 1008)
    const gone = await operate('subscribers', 'disconnect', '1')
    assert.deepEqual([gone.code, /SubscriberNotFound/.test(gone.stderr)], [1, true])
    const backedUp = await operate('backup', 'first', '--json')
    const { directory: copy } = JSON.parse(backedUp.stdout) as { directory: string } // by its lexicon
    assert.equal(copy, join(directory.path, 'stream', 'backups', 'first'))
    const verified = await commands.run(['stream', 'archive', 'verify', '--data-directory', copy])
    assert.deepEqual([verified.code, /^no damage$/m.test(verified.stdout)], [0, true])
    const twice = await operate('backup', 'first')
    assert.deepEqual([twice.code, /BackupExists/.test(twice.stderr)], [1, true])
    assert.equal((await operate('compact')).code, 0)
    assert.match((await operate('compaction')).stdout, /^pendingTakedowns +0$/m)
    const { stdout } = await commands.run(['stream', '--help'])
    for (const name of [
      'archive',
      'collections',
      'jobs',
      'repos',
      'coverage',
      'keys',
      'subscribers',
      'refusals',
      'backup',
      'compact',
      'compaction',
      'audit',
    ])
      assert.match(stdout, new RegExp(`^  ${name} `, 'm'))
  } finally {
    await stream.stop()
    relay.close()
  }
})
