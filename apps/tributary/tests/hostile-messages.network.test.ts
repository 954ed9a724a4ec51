/**
 * What one host can send to forge events of another host's account, or to end a service: through the relay and the
 * streams behind it, as processes that are killed and started again.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import {
  cborHead,
  cborMap,
  cborText,
  commitBody,
  encodeEvent,
  eventually,
  fieldsOf,
  inOrder,
  startPlc,
  startScriptedHost,
  syncBody,
  type CborField,
  type CborItem,
  type ScriptedAccount,
} from '@tributary/testkit'
import { strictFault } from '@tributary/testkit/strict-decoders'
import { RelayAndStreams } from './relay-and-streams.ts'

const collection = 'org.impact.collection'
const plc = await startPlc()
const hostile = await startScriptedHost({ plcUrl: plc.url })
const honest = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const services = await RelayAndStreams.start(plc.url, [hostile, honest])
after(async () => {
  await services[Symbol.asyncDispose]()
  await hostile.stop()
  await honest.stop()
  await plc.stop()
})

type Body = Record<string, unknown>

/** Emits a message whose payload has these fields in this order, `seq` and `time` added in front. */
function emitFields(type: string, fields: readonly CborField[], isOrdered = false): void {
  const whole = [...fieldsOf({ seq: hostile.lastSeq + 1, time: new Date().toISOString() }), ...fields]
  hostile.emitMessage(
    Buffer.concat([cborMap(fieldsOf({ op: 1, t: type })), cborMap(isOrdered ? inOrder(whole) : whole)]),
  )
}

/** A commit that the account would write next. */
function nextCommit(account: ScriptedAccount, title: string): Body {
  return commitBody(account.draft([{ action: 'create', collection, rkey: title, record: { title } }]))
}

/** What the bodies of one event say when two accounts are named in them: `own` belongs to the sender. */
function forgeries(own: ScriptedAccount, victim: ScriptedAccount): [type: string, body: Body][] {
  const gone = { active: false, status: 'deleted' }
  const { repo: _, ...commitOfOwn } = nextCommit(own, 'forged')
  const { repo: __, ...commitOfVictim } = nextCommit(victim, 'forged')
  const { did: ___, ...syncOfOwn } = syncBody(own.did, own.rev ?? '', own.head)
  return [
    ['#commit', commitOfOwn],
    ['#commit', commitOfVictim],
    ['#sync', syncOfOwn],
    ['#account', gone],
    ['#identity', { handle: 'forged.test' }],
  ]
}

async function saidOf({ did }: ScriptedAccount): Promise<unknown> {
  const response = await fetch(`${services.relayUrl}/xrpc/com.atproto.sync.getRepoStatus?did=${did}`)
  return await response.json()
}

test('no message that names two accounts passes in the name of either, in no order, and not after a kill', async () => {
  const own = await hostile.createAccount()
  const victim = await honest.createAccount()
  await services.untilDelivered(victim, 'before')
  const said = await saidOf(victim)
  for (const [type, body] of forgeries(own, victim)) {
    const rest = fieldsOf(body)
    for (const [did, repo] of [
      [own.did, victim.did],
      [victim.did, own.did],
    ] as const) {
      const names = fieldsOf({ did, repo })
      emitFields(type, [...names, ...rest])
      emitFields(type, [...names.toReversed(), ...rest])
      emitFields(type, [...rest, ...names])
      emitFields(type, [...names, ...rest], true)
      // One name twice.
      emitFields(type, [...fieldsOf({ did }), ...fieldsOf({ did: repo }), ...rest])
      emitFields(type, [...fieldsOf({ repo }), ...fieldsOf({ repo: did }), ...rest])
    }
  }
  // What each host sends in its own name comes out, before and after a kill.
  await services.untilDelivered(own, 'own-after')
  await services.untilDelivered(victim, 'victim-after')
  await services.killAndStart()
  await services.untilDelivered(own, 'own-restarted')
  await services.untilDelivered(victim, 'victim-restarted')
  for (const [name, consumer] of Object.entries(services.consumers)) {
    assert.equal(consumer.count('forged'), 0, name)
    assert.equal(consumer.count('deleted'), 0, name)
  }
  assert.deepEqual(await saidOf(victim), { ...(said as Body), rev: victim.rev })
  assert.equal(((await saidOf(own)) as Body)['active'], true)
})

/** Values of a field that nobody knows. Strict decoders take the first ones, and refuse the others. */
const oddValues: Record<string, CborItem> = {
  constructor: cborMap([['constructor', cborHead(0, 1)]]),
  __proto__: cborMap([['__proto__', cborMap([['polluted', cborHead(0, 1)]])]]),
  'a map in a map': cborMap([['a', cborMap([['$type', cborText('x')]])]]),
  'a key $link': cborMap([['$link', cborHead(0, 1)]]),
  'a key $bytes': cborMap([['$bytes', cborHead(0, 1)]]),
  'a text in $link': cborMap([['$link', cborText('no cid')]]),
  'a short link': Buffer.concat([cborHead(6, 42), cborHead(2, 5), Buffer.alloc(5)]),
  'a long link': Buffer.concat([cborHead(6, 42), cborHead(2, 60), Buffer.alloc(60)]),
  'a large integer': cborHead(0, 2n ** 60n),
  'a large negative integer': cborHead(1, 2n ** 60n),
  'keys out of order': cborMap([
    ['bb', cborHead(0, 1)],
    ['a', cborHead(0, 1)],
  ]),
  'a key twice': cborMap([
    ['a', cborHead(0, 1)],
    ['a', cborHead(0, 2)],
  ]),
  'a float': Buffer.from('fb3ff8000000000000', 'hex'),
  'a lone surrogate': Buffer.concat([cborHead(3, 3), Buffer.from('eda080', 'hex')]),
}

/** Names of the field, where programs may trip over the name itself. */
const oddNames = ['odd', '$type', '__proto__', 'constructor']

test('no odd message ends a service, at no start, and what comes out is canonical for consumers of every framing', async () => {
  const good = await honest.createAccount()
  const writer = await hostile.createAccount()
  await services.untilDelivered(writer, 'odd-before')
  for (const value of Object.values(oddValues)) {
    for (const name of oddNames) {
      const odd: CborField = [name, value]
      const { did } = writer
      emitFields('#identity', [...fieldsOf({ did, handle: 'wrong.test' }), odd], true)
      emitFields('#account', [...fieldsOf({ did, active: false, status: 'deactivated' }), odd], true)
      emitFields('#account', [...fieldsOf({ did, active: true }), odd], true)
      emitFields('#commit', [...fieldsOf(nextCommit(writer, 'odd')), odd], true)
      emitFields('#sync', [...fieldsOf(syncBody(did, writer.rev ?? '', writer.head)), odd], true)
      emitFields('#info', [...fieldsOf({ name: 'Odd' }), odd], true)
      hostile.emitMessage(Buffer.concat([cborMap([['op', cborHead(0, 1)], odd]), cborMap(fieldsOf({ did }))]))
    }
  }
  hostile.emitMessage(encodeEvent('constructor', { seq: hostile.lastSeq + 1, did: writer.did }))
  await services.untilDelivered(good, 'good-after')
  assert.deepEqual(services.ended, [])
  await services.killAndStart()
  await services.untilDelivered(good, 'good-restarted')
  // The account that sent them comes back with its next events.
  writer.announceIdentity()
  writer.setStatus(undefined)
  writer.announceSync()
  await eventually(async () => ((await saidOf(writer)) as Body)['active'] === true)
  await services.untilDelivered(writer, 'odd-restarted')
  assert.deepEqual(services.ended, [])
  const { v0, ...others } = services.consumers
  for (const message of v0.messages) assert.equal(strictFault(message), undefined)
  for (const message of others['xrpc.v1.json'].messages) {
    const { $type, payload } = JSON.parse(message.toString()) as { $type: string; payload: { $type: string } } // by its framing
    assert.equal($type, 'message')
    assert.match(payload.$type, /^com\.atproto\.sync\.subscribeRepos#(commit|sync|identity|account)$/)
  }
})

test('a host that answers every question with names of built-in properties ends nothing', async () => {
  const victim = await honest.createAccount()
  const asked = await hostile.createAccount()
  await services.untilDelivered(asked, 'asked-before')
  for (const method of ['getRepoStatus', 'getRepo', 'getLatestCommit', 'listRepos', 'getRecord'])
    hostile.answers.set(`com.atproto.sync.${method}`, (_, response) =>
      response.writeHead(400).end('{"error": "constructor", "message": "__proto__"}'),
    )
  // A broken chain makes the relay ask for the repository, an unexpected commit for the status.
  asked.commit([{ action: 'create', collection, rkey: 'silent', record: {} }])
  asked.create(collection, {}, 'after-silent')
  asked.setStatus('deactivated')
  asked.create(collection, {}, 'while-away')
  const isAsked = (method: string) => hostile.requests.some((path) => path.includes(method))
  await eventually(
    () => isAsked('getRepoStatus'),
    () => hostile.requests.slice(-20),
  )
  await services.untilDelivered(victim, 'answers-after')
  assert.deepEqual(services.ended, [])
  hostile.answers.clear()
})
