/** Nobody is shown the records of an account that is not active. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type InactiveStatus, startPlc, startScriptedHost } from '@tributary/testkit'
import { EventReader, type StreamMessage } from './event-reader.ts'
import { startTestStream } from './start-test-stream.ts'
import { V1Reader } from './v1-reader.ts'

const follow = 'app.attested.graph.follow'
/** Records of an account that stays. There are many, so that some are handed out together with one of a hidden account. */
const others = [...Array.from({ length: 20 }, (_, i) => `other-${i}`), 'other']

/** The key of each record, the kind of each marker. */
function briefly({ $type, rkey }: StreamMessage): string {
  return typeof rkey === 'string' ? rkey : ($type.split('#')[1] ?? '')
}

async function seenBy(url: string, until: string, query: object = {}): Promise<string[]> {
  using reader = await EventReader.open(url, { cursor: 0, ...query })
  await reader.until(() => reader.messages.some((message) => briefly(message) === until))
  return reader.messages.map(briefly)
}

test('from its account event on the records of a hidden account are left out live, in replay and after a restart', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'hidden-'))
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  const settings = {
    dataDirectory: directory.path,
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
  }
  const [gone, other] = [
    await host.createAccount({ announce: false }),
    await host.createAccount({ announce: false }),
  ]
  {
    await using stream = await startTestStream(settings)
    using live = await EventReader.open(stream.url, { cursor: 0 })
    using v1 = await V1Reader.open(stream.url, { cursor: 0 })
    using filtered = await EventReader.open(stream.url, { cursor: 0, dids: [gone.did, other.did] })
    gone.create(follow, {}, 'in-a-block')
    await live.until(() => live.messages.length === 1)
    await stream.seal()
    gone.create(follow, {}, 'in-memory')
    for (const reader of [live, filtered]) await reader.until(() => reader.messages.length === 2)
    gone.setStatus('takendown')
    for (const rkey of others) {
      gone.create(follow, {}, `later-${rkey}`)
      other.create(follow, {}, rkey)
    }
    for (const reader of [live, filtered]) {
      await reader.until(() => reader.messages.some((message) => briefly(message) === 'other'))
      assert.deepEqual(reader.messages.map(briefly), ['in-a-block', 'in-memory', 'account', ...others])
    }
    assert.deepEqual(await seenBy(stream.url, 'other'), ['account', ...others])
    const lastSeq = live.seqs.at(-1) ?? 0
    using v1Late = await V1Reader.open(stream.url, { cursor: 0 })
    for (const reader of [v1, v1Late]) await reader.through(lastSeq)
    const v1Keys = ({ messages }: V1Reader): string[] =>
      messages.map((each) => each.commit?.rkey ?? each.kind)
    assert.deepEqual(v1Keys(v1), ['in-a-block', 'in-memory', 'account', ...others])
    assert.deepEqual(v1Keys(v1Late), ['account', ...others])
    assert.deepEqual(await seenBy(stream.url, 'other', { maxMessageSizeBytes: 100_000 }), [
      'account',
      ...others,
    ])
    gone.setStatus(undefined)
    other.create(follow, {}, 'after')
    await live.until(() => live.messages.some((message) => briefly(message) === 'after'))
    const all = ['in-a-block', 'in-memory', 'account', ...others, 'account', 'after']
    assert.deepEqual(await seenBy(stream.url, 'after'), all)
    gone.setStatus('deleted')
    other.create(follow, {}, 'last')
    await seenBy(stream.url, 'last')
  }
  await using stream = await startTestStream(settings)
  assert.deepEqual(await seenBy(stream.url, 'last'), [
    'account',
    ...others,
    'account',
    'after',
    'account',
    'last',
  ])
})

test('an account is hidden for reasons of its own, and not for those of its relay', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using stream = await startTestStream({ relayUrl: host.url.replace('http', 'ws'), plcUrl: plc.url })
  const statuses = ['takendown', 'suspended', 'deactivated', 'deleted', 'throttled', 'desynchronized', 'odd']
  for (const status of statuses) {
    const account = await host.createAccount({ announce: false })
    account.create(follow, {}, status)
    account.setStatus(status as InactiveStatus) // others are what a relay may say
  }
  const last = await host.createAccount({ announce: false })
  last.create(follow, {}, 'last')
  const seen = await seenBy(stream.url, 'last')
  assert.deepEqual(
    seen.filter((each) => each !== 'account'),
    ['throttled', 'desynchronized', 'last'],
  )
})
