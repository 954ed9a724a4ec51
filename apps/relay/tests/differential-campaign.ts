/**
 * The reader of messages against the decoders of consumers: messages drawn from a grammar, right ones and wrong ones.
 * Each that is accepted must be read the same by three strict decoders, and be encoded to the same bytes by each.
 *
 *     node apps/relay/tests/differential-campaign.ts --messages 100000 --seed 1
 */
import { stdout } from 'node:process'
import { parseArgs } from 'node:util'
import { decodeFrame } from '@tributary/protocol'
import { parseDidKey, verifyEvent } from '@tributary/repo-verify'
import { oddlyExtended, randomFrom, randomMessage, SignedRepo, Signer } from '@tributary/testkit'
import { strictFault } from '@tributary/testkit/strict-decoders'

const shownMax = 12
const bytesShown = 60

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 32) },
  },
})
const messages = Number(values.messages)
const random = randomFrom(Number(values.seed))
const own = repoOf('own')
const victim = repoOf('victim')
const key = parseDidKey(own.signer.did())
const options = { key, nowMs: Date.now() + 60_000, strict: true }
const faults = new Map<string, { count: number; example: string }>()
let accepted = 0
const startMs = performance.now()
for (let seq = 1; seq <= messages; seq++) {
  const message = draw(seq)
  const fault = faultOf(message)
  if (fault === undefined) continue
  const known = faults.get(fault)
  if (known) known.count++
  else faults.set(fault, { count: 1, example: Buffer.from(message.subarray(0, bytesShown)).toString('hex') })
}
const seconds = ((performance.now() - startMs) / 1000).toFixed(1)
stdout.write(
  `differential: ${messages} messages, ${accepted} accepted, ${faults.size} kinds of fault (seed ${values.seed}), ${seconds} s\n`,
)
for (const [fault, { count, example }] of [...faults]
  .toSorted(([, a], [, b]) => b.count - a.count)
  .slice(0, shownMax))
  stdout.write(`  ${count} times: ${fault}; for example ${example}…\n`)
if (faults.size > 0) process.exitCode = 1

function repoOf(name: string): SignedRepo {
  const repo = new SignedRepo(`did:plc:${name.padEnd(24, 'a')}`, Signer.fromSeed(name))
  repo.commit([])
  return repo
}

function draw(seq: number): Uint8Array {
  if (random.next() < 0.2) {
    return oddlyExtended(random, random.pick(['#commit', '#sync', '#identity', '#account']), own, seq)
  }
  return randomMessage(random, { own, others: [victim], otherDids: [victim.did] }, { seq })
}

/** What is wrong with the reader's opinion of a message. Undefined when it is refused, or read as everybody reads it. */
function faultOf(message: Uint8Array): string | undefined {
  let verified: ReturnType<typeof verifyEvent>
  try {
    verified = verifyEvent(message, options)
  } catch (error) {
    return `the reader throws ${String(error)}`
  }
  if (!verified.ok) return undefined
  // The others are not passed on.
  if (!('did' in verified)) return undefined
  accepted++
  const fault = strictFault(message)
  if (fault !== undefined) return `accepted as ${verified.kind}, but ${withoutNumbers(fault)}`
  const { body } = decodeFrame(message)
  const named = verified.kind === 'commit' ? body['repo'] : body['did']
  if (named !== verified.did) return `read as an event of another account than it names`
  if (body['seq'] !== verified.upstreamSeq || body['time'] !== verified.time)
    return 'seq or time is read otherwise'
  return undefined
}

function withoutNumbers(fault: string): string {
  return fault.replaceAll(/\d+/g, 'N').slice(0, 160)
}
