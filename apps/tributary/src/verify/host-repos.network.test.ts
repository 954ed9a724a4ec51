/** Hosts that give a repository as it should be, and hosts that do not. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, test } from 'node:test'
import { createResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { encodeCar, startPlc, startScriptedHost, type HostAnswer as Answer } from '@tributary/testkit'
import { HostRepos, type HostAnswer } from './host-repos.ts'

const collection = 'org.impact.collection'
const method = 'com.atproto.sync.getRepo'
const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
after(async () => {
  await host.stop()
  await plc.stop()
})

/** A reader that knows of nobody yet, and does not wait between requests. */
function newRepos(signal: AbortSignal = new AbortController().signal): HostRepos {
  const where = { plcUrl: plc.url, allowedPrivateHosts: [host.host] }
  return new HostRepos({ ...where, resolver: createResolver(where), signal, everyMs: 0 })
}

async function read(did: string): Promise<HostAnswer> {
  return await newRepos().read(did as Did) // of an account
}

/** What is read while the host answers so. */
async function readWhile(did: string, answer: Answer): Promise<HostAnswer> {
  host.answers.set(method, answer)
  try {
    return await read(did)
  } finally {
    host.answers.delete(method)
  }
}

function whyOf(answer: HostAnswer): string {
  return 'why' in answer ? `${answer.is}: ${answer.why}` : answer.is
}

test('a repository is read with the CID of each record, also after its account took another key', async () => {
  const account = await host.createAccount()
  const written = account.create(collection, { title: 'first' }, 'one')
  const answer = await read(account.did)
  assert.ok(answer.is === 'active', whyOf(answer))
  assert.deepEqual([answer.host, answer.repo.rev], [host.host, account.rev])
  assert.deepEqual([...answer.repo.records], [[`${collection}/one`, written.cid]])
  const repos = newRepos()
  assert.equal((await repos.read(account.did as Did)).is, 'active') // of an account
  await account.rotateKey()
  account.update(collection, 'one', { title: 'second' })
  // The key that is known no longer fits.
  const again = await repos.read(account.did as Did) // as above
  assert.equal(whyOf(again), 'active')
})

test('a repository that is not what the protocol demands is wrong, and says why', async () => {
  const [account, other] = [await host.createAccount(), await host.createAccount()]
  for (const each of [account, other]) each.create(collection, { title: each.did })
  const send =
    (bytes: Uint8Array): Answer =>
    (_, response) =>
      void response.end(bytes)
  const whole = encodeCar(account.head.cid, account.blocks())
  const flipped = Uint8Array.from(whole)
  flipped[whole.length - 3] = 0xff ^ (whole.at(-3) ?? 0)
  const cases: [bytes: Uint8Array, why: RegExp][] = [
    [encodeCar(other.head.cid, other.blocks()), /^wrong: (bad-signature|mismatched-fields): /],
    [encodeCar(account.head.cid, account.blocks().slice(0, -1)), /^wrong: missing-block: /],
    [flipped, /^wrong: bad-block-hash: /],
    [whole.subarray(0, -1), /^wrong: malformed-car: /],
    [randomBytes(500), /^wrong: malformed-car: /],
    [new Uint8Array(0), /^wrong: malformed-car: /],
  ]
  for (const [bytes, why] of cases) assert.match(whyOf(await readWhile(account.did, send(bytes))), why)
})

test('an account that is not there, or not active, is away', async () => {
  const account = await host.createAccount()
  account.setStatus('takendown')
  assert.equal(whyOf(await read(account.did)), 'away: its host says that it is taken down')
  host.accounts.delete(account.did)
  assert.equal(whyOf(await read(account.did)), 'away: its host says that it is not there')
  await account.tombstone()
  assert.match(whyOf(await read(account.did)), /^away: /)
})

test('a host that wants to be left alone for a moment is asked again, and one that gives no answer is told', async () => {
  const account = await host.createAccount()
  let requests = 0
  const again = await readWhile(account.did, (_, response) => {
    requests++
    if (requests === 1) response.writeHead(429, { 'retry-after': '0' }).end()
    else response.end(encodeCar(account.head.cid, account.blocks()))
  })
  assert.deepEqual([whyOf(again), requests], ['active', 2])
  const never = await readWhile(account.did, (_, response) => {
    requests++
    response.writeHead(503, { 'retry-after': '0' }).end()
  })
  assert.deepEqual([whyOf(never), requests], ['unknown: its host answered getRepo with 503', 5])
  const long = await readWhile(account.did, (_, response) => {
    requests++
    response.writeHead(429, { 'retry-after': '3600' }).end()
  })
  assert.deepEqual([whyOf(long), requests], ['unknown: its host answered getRepo with 429', 6])
  const elsewhere = await readWhile(account.did, (_, response) => {
    response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()
  })
  assert.equal(whyOf(elsewhere), 'unknown: more than 0 redirects')
  const cut = await readWhile(account.did, (_, response) => {
    response.writeHead(200, { 'content-length': '1000' })
    response.write('x')
    response.destroy()
  })
  assert.match(whyOf(cut), /^unknown: /)
  await host.stop()
  assert.match(whyOf(await read(account.did)), /^unknown: no answer from localhost/)
  await host.start()
})

test('a host that is not allowed to be private is not called', async () => {
  const account = await host.createAccount()
  const where = { plcUrl: plc.url, allowedPrivateHosts: [] }
  const repos = new HostRepos({
    ...where,
    resolver: createResolver(where),
    signal: new AbortController().signal,
  })
  const before = host.requests.length
  assert.match(whyOf(await repos.read(account.did as Did)), /^unknown: /) // of an account
  assert.equal(host.requests.length, before)
})

test('reading ends when it is stopped', async () => {
  const account = await host.createAccount()
  const stop = new AbortController()
  host.answers.set(method, () => stop.abort(new Error('stopped')))
  await assert.rejects(newRepos(stop.signal).read(account.did as Did), /stopped/) // of an account
  host.answers.delete(method)
})
