/** Answers to every question that we ask of a host: huge, slow, wrong, or none. */
import type { ServerResponse } from 'node:http'
import { nextTid, type ScriptedAccount } from '@tributary/testkit'
import { pour, type HostileHost } from '../hostile-host.ts'
import { pause, repeat, type Stage, type Strategy } from '../stage.ts'

const bytesMax = 64_000_000
const zeros = Buffer.alloc(256 * 1024)
const blocks = carOfBlocks()

export const answering: Readonly<Record<string, Strategy>> = {
  /** 64 MB of everything. */
  'huge-answers': (stage) =>
    answerAll(stage, (response, question) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      void pour(response, question.endsWith('getRepo') ? blocks : zeros, bytesMax)
    }),

  /** Byte by byte, without end. */
  'slow-answers': (stage) =>
    answerAll(stage, (response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      const timer = setInterval(() => response.write(' '), 100)
      response.on('close', () => clearInterval(timer))
    }),

  /** Nothing at all. */
  'no-answers': (stage) => answerAll(stage, () => undefined),

  /** Another protocol than was asked in. */
  'other-protocols': (stage) =>
    answerAll(stage, ({ socket }) => {
      socket?.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n')
    }),

  /** Other things than were asked for. */
  'wrong-answers': (stage) =>
    answerAll(stage, (response) => {
      const type = stage.random.pick(['application/json', 'application/vnd.ipld.car', 'text/html'])
      response.writeHead(stage.random.pick([200, 200, 400, 404, 500, 302, 429]), {
        'content-type': type,
        location: stage.random.pick([stage.relayUrl, 'http://169.254.169.254/', 'gopher://x']),
        'retry-after': stage.random.pick(['0', '-1', '1e99', 'constructor']),
      })
      response.end(stage.random.pick(wrongAnswers)())
    }),
}

const wrongAnswers: readonly (() => string | Uint8Array)[] = [
  () => '{"error":"constructor"}',
  () => '{"error":"__proto__"}',
  () => '{"error":"toString","message":{}}',
  () => '{"error":{"length":1}}',
  () => '{"active":true,"status":"constructor","did":1}',
  () => '{"active":false,"status":"__proto__"}',
  () => `{"active":false,"status":"${'x'.repeat(10_000)}"}`,
  () => '{"active":"yes"}',
  () => 'null',
  () => '[]',
  () => '"text"',
  () => '',
  () => '['.repeat(8000),
  () => '{"repos":[{"did":"constructor","head":1,"rev":{}}],"cursor":{}}',
  () => '{"repos":null}',
  () => Buffer.from([0x3a, 0xa2, 0x65, 0x72, 0x6f, 0x6f, 0x74, 0x73]),
  () => Buffer.alloc(100, 0xff),
]

/**
 * Answers every question like this, and has the relay ask. Two hosts say honestly whether an account is active, because
 * only then they are asked for its commit.
 */
async function answerAll(
  stage: Stage,
  answer: (response: ServerResponse, question: string) => void,
): Promise<void> {
  for (const [index, host] of stage.hosts.entries()) {
    host.answerAll((response, question) => {
      stage.count(question)
      answer(response, question)
    })
    if (index % 2 === 0) host.answers.delete('com.atproto.sync.getRepoStatus')
  }
  const accounts = await Promise.all(
    stage.hosts.flatMap((host) =>
      Array.from({ length: 12 }, async () => ({ host, account: await host.createHostile() })),
    ),
  )
  await repeat(stage, 40, (index) => {
    const { host, account } = accounts[index % accounts.length] ?? {}
    if (host && account) provoke(stage, host, account)
  })
  await pause(stage, 0)
}

/** What makes a relay ask the host of an account about it. */
function provoke(stage: Stage, host: HostileHost, account: ScriptedAccount): void {
  const how = stage.random.below(3)
  // An account that its host called inactive writes: is it active again? What it missed has to be made up for.
  if (how === 0) host.emit('#account', { did: account.did, active: false, status: 'deactivated' })
  // A commit that does not continue the one before.
  if (how === 1)
    account.commit([{ action: 'create', collection: 'org.impact.collection', rkey: nextTid(), record: {} }])
  // Another host speaks for the account.
  if (how === 2) stage.random.pick(stage.hosts).emit('#account', { did: account.did, active: true })
  account.create('org.impact.collection', { title: 'provoking' })
  if (host.accounts.size > 100) return
  stage.count('provocations')
}

/** The beginning of a CAR that has no end: many small blocks. */
function carOfBlocks(): Uint8Array {
  const block = Buffer.concat([
    Uint8Array.of(0x01, 0x71, 0x12, 0x20),
    Buffer.alloc(32),
    Buffer.alloc(4, 0x80),
  ])
  const section = Buffer.concat([Uint8Array.of(block.length), block])
  return Buffer.concat(Array<Uint8Array>(Math.floor((256 * 1024) / section.length)).fill(section))
}
