import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { StreamEvent } from '@tributary/protocol'
import Sqlite from 'better-sqlite3'
import { eventually, SmallStream, startProcess, tidAt, type ServiceProcess } from '@tributary/testkit'
import { serviceEntry } from '../src/service-entry.ts'
import { Commands, type Outcome } from './commands.ts'

const [viewer, author, organization, evaluator, labeler] = ['v', 'a', 'o', 'e', 'l'].map(
  (letter) => `did:plc:${letter.repeat(24)}`,
) as [string, string, string, string, string] // as many
const noon = '2026-03-04T12:00:00.000Z'
let seq = 0

function put(did: string, collection: string, rkey: string, fields: object): StreamEvent {
  seq++
  const record = { $type: collection, createdAt: noon, ...fields }
  const cid = `bafyrei${'a'.repeat(52)}`
  const commit = { kind: 'commit', operation: 'create', rev: tidAt(seq * 1000), cid, time: noon }
  return { ...commit, seq, did, collection, rkey, record } as unknown as StreamEvent // a valid one, whose strings have no types of their own here
}

function follow(did: string, rkey: string): StreamEvent {
  return put(viewer, 'app.attested.graph.follow', rkey, { subject: did })
}

function activity(did: string, rkey: string): StreamEvent {
  const fields = { title: `Trees ${rkey}`, shortDescription: 'We planted trees.' }
  return put(did, 'org.impact.claim.activity', rkey, fields)
}

/** How many activities the author has: more than the feed gives at once. */
const many = 60
const events = [
  follow(author, 'one'),
  follow(organization, 'two'),
  put(organization, 'app.attested.actor.organization', 'self', {}),
  ...Array.from({ length: many }, (_, i) => activity(author, `a${i}`)),
  activity(organization, 'o'),
]

test('feed show says of each entry why it is there, and shows more than one page', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'feed-explain-'))
  await using commands = new Commands()
  await using stream = await SmallStream.start(events)
  const databasePath = join(directory.path, 'index.sqlite')
  const start = (name: 'index' | 'feed', settings: Record<string, string>): Promise<ServiceProcess> => {
    const all = { PORT: '0', DATABASE_PATH: databasePath, PLC_URL: 'http://127.0.0.1:1', ...settings }
    const env = Object.entries(all).map(
      ([key, value]) => [`TRIBUTARY_${name.toUpperCase()}_${key}`, value] as const,
    )
    return startProcess(serviceEntry(name), { env: Object.fromEntries(env) })
  }
  await using index = await start('index', { STREAM_URL: stream.url })
  await eventually(async () => {
    const state = (await (await fetch(`${index.url}/ready`)).json()) as { cursor?: number } // as the index has it
    return state.cursor === seq
  })
  const database = new Sqlite(databasePath)
  database
    .prepare(
      'insert into labels (src, did, uri, cid, val, neg, cts, exp) values (?, ?, ?, null, ?, 0, 1, null)',
    )
    .run(labeler, organization, organization, 'high-quality')
  database.close()
  await using feed = await start('feed', { SERVICE_DID: 'did:web:feed.example', LABELERS: labeler })

  const show = (...args: string[]): Promise<Outcome> =>
    commands.run(['feed', 'show', viewer, '--url', feed.url, ...args])
  const explain = ['--explain', '--database-path', databasePath, '--labelers', labeler]
  const all = await show(...explain, '--limit', '100', '--wide')
  assert.deepEqual([all.code, all.stderr], [0, ''])
  const [head = '', ...lines] = all.stdout.trimEnd().split('\n')
  assert.match(head, /^TITLE +KIND +ACTOR +TIME +SUBJECT +BECAUSE$/)
  assert.equal(lines.length, many + 1)
  for (const line of lines.filter((each) => each.includes(author)))
    assert.match(line, /^Trees a\d+ .* {2}followed$/)
  const ofOrganization = lines.filter((line) => line.includes(organization))
  assert.equal(ofOrganization.length, 1)
  assert.match(ofOrganization[0] ?? '', /followed; an organization, rated high-quality by did:plc:l{24}$/)

  const rated = await show(...explain, '--quality', 'high-quality', '--kinds', 'cert.create', '--limit', '1')
  // Without --wide, the reason is below the entry that it is of.
  assert.match(rated.stdout, /^TITLE .*\nTrees o .*\n {2}followed; an organization, rated [^\n]+\n$/)
  const asked = await show(...explain, '--evaluators', evaluator, '--limit', '1', '--json')
  const [entry] = JSON.parse(asked.stdout) as { because: unknown }[] // as it is printed
  assert.deepEqual(Object.keys(entry?.because ?? {}), ['follows', 'endorsedBy', 'isOrganization', 'labels'])

  await using empty = await SmallStream.start([])
  const otherPath = join(directory.path, 'other.sqlite')
  await using _other = await start('index', { STREAM_URL: empty.url, DATABASE_PATH: otherPath })
  const ofAnother = await show('--explain', '--database-path', otherPath, '--limit', '1', '--wide')
  assert.match(ofAnother.stdout, /  nothing in the index database speaks for it now$/m)
  assert.match(ofAnother.stderr, /is this the database of that feed\? --database-path names another one\n$/)

  const elsewhere = await show('--explain', '--database-path', join(directory.path, 'none.sqlite'))
  assert.equal(elsewhere.code, 74)
  assert.match(elsewhere.stderr, /^tributary feed show: [^\n]+\n$/)
  const alone = await show('--labelers', labeler)
  assert.deepEqual([alone.code, alone.stdout], [64, ''])
})
