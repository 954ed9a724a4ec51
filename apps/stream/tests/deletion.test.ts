/** What an account wrote is nowhere any more after it was deleted, and its markers are where they were. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { decodeWithSecondDecoder } from '@tributary/testkit/second-jss-decoder'
import { verifyArchive } from '../src/archive/archive-tools.ts'
import { EventReader } from './event-reader.ts'
import { operate, startTestStream, type TestStream } from './start-test-stream.ts'
import { V1Reader } from './v1-reader.ts'

const follow = 'app.attested.graph.follow'
/** In every record of the account. */
const secret = 'kQ7vXw2LpZ9rTb4NhYc8'

/** Files of a data directory that hold the secret, as they are or in a frame of a block. */
function filesWithSecret(directory: string): string[] {
  const found: string[] = []
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const path = join(directory, name)
    // The stream may have removed it by now.
    if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) continue
    const bytes = readIfThere(path)
    if (bytes.includes(secret) || framesOf(bytes).some((frame) => frame.includes(secret))) found.push(name)
  }
  return found
}

function readIfThere(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return Buffer.alloc(0)
    throw error
  }
}

/** What is compressed in a file, wherever it begins. */
function framesOf(bytes: Buffer): Buffer[] {
  const magic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])
  const frames: Buffer[] = []
  for (let at = bytes.indexOf(magic); at !== -1; at = bytes.indexOf(magic, at + 1)) {
    // The length of a block stands before it.
    const length = at >= 8 ? Number(bytes.readBigUInt64LE(at - 8)) : 0
    if (length > 0 && at + length <= bytes.length)
      frames.push(zstdDecompressSync(bytes.subarray(at, at + length)))
  }
  return frames
}

/** Everything that the archive answers with, block by block and as whole segments, and what a plan names. */
async function download(stream: TestStream): Promise<Buffer[]> {
  const list = (await (await stream.archive('listSegments')).json()) as { segments: { name: string }[] } // by its lexicon
  const answers: Buffer[] = []
  for (const { name } of list.segments) {
    const whole = Buffer.from(await (await stream.archive(`getSegment?name=${name}`)).arrayBuffer())
    const { blocks } = await decodeWithSecondDecoder(whole)
    answers.push(...framesOf(whole))
    for (const i of blocks.keys()) {
      const block = await stream.archive(`getBlock?segment=${name}&blockIndex=${i}`)
      answers.push(zstdDecompressSync(Buffer.from(await block.arrayBuffer())))
    }
  }
  return answers
}

test('after a deletion and a pass no byte of its records is in any file, memory or answer, and its markers are', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'deletion-'))
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  const [gone, stays] = [await host.createAccount(), await host.createAccount()]
  await using stream = await startTestStream({
    dataDirectory: directory.path,
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
  })
  using live = await EventReader.open(stream.url, { cursor: 0 })
  const written = async (rkey: string): Promise<void> => {
    await live.until(() => live.messages.some((message) => message['rkey'] === rkey))
  }
  // In a sealed segment, in a block of the active one, and in the log and in memory only.
  for (const [i, place] of ['sealed', 'sealed-too', 'active'].entries()) {
    gone.create(follow, { note: `${secret} in ${place}` }, `gone-${place}`)
    gone.update(follow, `gone-${place}`, { note: `${secret} changed` })
    stays.create(follow, { note: 'stays' }, `stays-${place}`)
    await written(`gone-${place}`)
    await written(`stays-${place}`)
    if (i < 2) await stream.seal()
  }
  using reader = await EventReader.open(stream.url, { cursor: 0 })
  using v1 = await V1Reader.open(stream.url, { cursor: 0 })
  await reader.until(() => reader.seqs.length === live.seqs.length)
  await v1.through(live.seqs.at(-1) ?? 0)
  assert.ok(filesWithSecret(directory.path).length >= 3)
  assert.ok((await download(stream)).some((answer) => answer.includes(secret)))
  // A download that has begun, and is not read before the file is another one.
  const begun = await stream.archive('getSegment?name=seg_0000000000.jss')
  const length = Number(begun.headers.get('content-length'))

  gone.setStatus('deleted')
  await live.until(() => live.messages.at(-1)?.$type.endsWith('#account') === true)
  assert.equal((await operate(stream, 'compact', {})).status, 200)
  await eventually(() => filesWithSecret(directory.path).length === 0)

  for (const answer of await download(stream)) assert.ok(!answer.includes(secret))
  using late = await EventReader.open(stream.url, { cursor: 0 })
  using lateV1 = await V1Reader.open(stream.url, { cursor: 0 })
  await late.until(() => late.seqs.at(-1) === live.seqs.at(-1))
  await lateV1.through(live.seqs.at(-1) ?? 0)
  for (const { messages } of [late, lateV1]) assert.ok(!JSON.stringify(messages).includes(secret))
  const markersOf = ({ messages }: EventReader): unknown[] =>
    messages.flatMap(({ $type, did, seq }) =>
      did === gone.did && !$type.endsWith('#commit') ? [[$type, seq]] : [],
    )
  assert.deepEqual(markersOf(late), markersOf(live))
  assert.equal(markersOf(late).length, 4)
  assert.deepEqual(
    late.messages.flatMap((message) => (typeof message['rkey'] === 'string' ? [message['rkey']] : [])),
    ['stays-sealed', 'stays-sealed-too', 'stays-active'],
  )
  const damage: string[] = []
  await verifyArchive(directory.path, (report) => damage.push(...report.damage))
  assert.deepEqual(damage, [])
  // It ends as it began, or breaks off: never with another file's bytes.
  const bytes = await begun.arrayBuffer().catch(() => undefined)
  if (bytes) {
    assert.equal(bytes.byteLength, length)
    await decodeWithSecondDecoder(new Uint8Array(bytes))
  }
})

test('the records of an account whose takedown was lost leave replay and every file, and stay away', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'deletion-'))
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  host.answers.set('com.atproto.sync.listHosts', (_, response) => {
    response.writeHead(200).end(JSON.stringify({ hosts: [{ hostname: host.host }] }))
  })
  const settings = {
    dataDirectory: directory.path,
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
    allowedPrivateHosts: ['localhost'],
    collections: [follow],
    backfill: 'on' as const,
    backfillSettleSeconds: 0,
  }
  const [gone, stays] = [await host.createAccount(), await host.createAccount()]
  const keysOf = async ({ url }: TestStream): Promise<unknown[]> => {
    using reader = await EventReader.open(url, { cursor: 0, kinds: ['commit'] })
    await reader.until(() => reader.messages.some((message) => message['rkey'] === 'stays'))
    return reader.messages.map(({ rkey }) => rkey)
  }
  {
    await using stream = await startTestStream(settings)
    gone.create(follow, { note: secret }, 'gone')
    stays.create(follow, {}, 'stays')
    await eventually(async () => (await keysOf(stream)).length === 2)
    await stream.seal()
  }
  assert.ok(filesWithSecret(directory.path).length > 0)
  gone.setStatus('takendown')
  host.forgetThrough(host.lastSeq)
  {
    await using stream = await startTestStream(settings)
    await eventually(async () => (await keysOf(stream)).length === 1)
    assert.equal((await operate(stream, 'compact', {})).status, 200)
    await eventually(() => filesWithSecret(directory.path).length === 0)
  }
  await using again = await startTestStream(settings)
  assert.deepEqual(await keysOf(again), ['stays'])
})

test('the records of accounts that are gone, and that no PDS lists, leave every file though the events that said so were lost', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'deletion-'))
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  host.answers.set('com.atproto.sync.listHosts', (_, response) => {
    response.writeHead(200).end(JSON.stringify({ hosts: [{ hostname: host.host }] }))
  })
  const settings = {
    dataDirectory: directory.path,
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
    allowedPrivateHosts: ['localhost'],
    collections: [follow],
    backfill: 'on' as const,
    backfillSettleSeconds: 0,
  }
  const [deleted, down] = [await host.createAccount(), await host.createAccount()]
  const stays = await host.createAccount()
  {
    await using stream = await startTestStream(settings)
    for (const account of [deleted, down]) account.create(follow, { note: secret }, 'gone')
    down.setStatus('deactivated')
    stays.create(follow, {}, 'stays')
    using reader = await EventReader.open(stream.url, { cursor: 0 })
    await reader.until(() => reader.messages.some(({ rkey }) => rkey === 'stays'))
    await stream.seal()
  }
  const statuses = new Map<string | null, string>([
    [deleted.did, 'deleted'],
    [down.did, 'takendown'],
  ])
  for (const { did } of [deleted, down]) host.accounts.delete(did)
  host.answers.set('com.atproto.sync.getRepoStatus', ({ url }, response) => {
    const did = new URL(url ?? '', host.url).searchParams.get('did')
    const status = statuses.get(did)
    response.writeHead(200).end(JSON.stringify({ did, active: status === undefined, status }))
  })
  stays.create(follow, {}, 'lost')
  host.forgetThrough(host.lastSeq)
  await using stream = await startTestStream(settings)
  const coverage = async (): Promise<string> =>
    await (await fetch(`${stream.url}/xrpc/network.social.stream.getCoverage`)).text()
  await eventually(async () => (await coverage()).includes('"complete"'), coverage)
  await eventually(async () => {
    assert.equal((await operate(stream, 'compact', {})).status, 200)
    return filesWithSecret(directory.path).length === 0
  })
})
