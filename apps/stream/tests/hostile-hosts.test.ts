/** What hosts and the relay answer to a backfill, written by somebody who wants the stream to end or to stand still. */
import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { test } from 'node:test'
import { eventually, type ScriptedHost, startPlc, startScriptedHost } from '@tributary/testkit'
import { operate, startTestStream, type TestStream } from './start-test-stream.ts'

const collection = 'org.impact.collection'

function answerWith(host: ScriptedHost, method: string, status: number, text: string): void {
  host.answers.set(`com.atproto.sync.${method}`, (_: IncomingMessage, response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(text)
  })
}

/** A stream of one host, which is its relay too. */
function streamOf(host: ScriptedHost): Promise<TestStream> {
  return startTestStream({
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: host.plcUrl,
    allowedPrivateHosts: ['localhost'],
    collections: [collection],
    backfill: 'on',
    backfillSettleSeconds: 0,
    backfillRequestsPerSecond: 1000,
  })
}

/** What the coverage says, as text. */
async function saidOf({ url }: TestStream): Promise<string> {
  return await (await fetch(`${url}/xrpc/network.social.stream.getCoverage`)).text()
}

test('an error that is no text costs one repository', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  answerWith(host, 'listHosts', 200, JSON.stringify({ hosts: [{ hostname: host.host }] }))
  const account = await host.createAccount({ announce: false })
  account.create(collection, {}, 'a')
  answerWith(host, 'getRepo', 400, '{"error":{"toString":1}}')
  await using stream = await streamOf(host)
  await eventually(async () => (await stream.metric('stream_backfilled_repos_total', 'refused')) > 0)
})

for (const method of ['listHosts', 'listRepos'])
  test(`a cursor of ${method} that is no valid text leaves open what comes after it`, async () => {
    await using plc = await startPlc()
    await using host = await startScriptedHost({ plcUrl: plc.url })
    const rows = method === 'listHosts' ? [{ hostname: host.host }] : []
    answerWith(host, 'listHosts', 200, JSON.stringify({ hosts: [{ hostname: host.host }] }))
    const key = method === 'listHosts' ? 'hosts' : 'repos'
    answerWith(host, method, 200, `{"${key}":${JSON.stringify(rows)},"cursor":"\\ud800"}`)
    await using stream = await streamOf(host)
    await eventually(async () => (await saidOf(stream)).includes('a cursor that cannot be used'))
    const { jobs } = (await operate(stream, 'listJobs')).body as { jobs: { state: string }[] } // by its lexicon
    assert.deepEqual(
      jobs.map(({ state }) => state),
      method === 'listHosts' ? [] : ['active'],
    )
    assert.ok(!host.requests.some((path) => path.includes(`${method}?`) && path.includes('cursor=')))
  })

test('four PDSs that let every repository wait hold up no other', async () => {
  await using plc = await startPlc()
  await using relay = await startScriptedHost({ plcUrl: plc.url })
  await using hosts = new AsyncDisposableStack()
  const held = new Set<ServerResponse>()
  hosts.defer(() => held.forEach((response) => response.destroy()))
  const names: string[] = []
  for (let n = 0; n < 5; n++) {
    const host = hosts.use(await startScriptedHost({ plcUrl: plc.url }))
    names.push(host.host)
    for (let left = n < 4 ? 3 : 1; left > 0; left--)
      (await host.createAccount({ announce: false })).create(collection, {}, 'a')
    if (n < 4) host.answers.set('com.atproto.sync.getRepo', (_, response) => void held.add(response))
  }
  answerWith(relay, 'listHosts', 200, JSON.stringify({ hosts: names.map((hostname) => ({ hostname })) }))
  // The last one is begun with when the others have all that they get.
  const last = names.at(-1)
  await using stream = await streamOf(relay)
  await eventually(
    async () => {
      const { jobs } = (await operate(stream, 'listJobs')).body as { jobs: Record<string, unknown>[] } // by its lexicon
      return jobs.some((job) => job['host'] === last && job['state'] === 'done') && held.size >= 8
    },
    async () => [held.size, (await operate(stream, 'listJobs')).body],
  )
})

for (const method of ['listHosts', 'listRepos'])
  test(`a ${method} that names a new cursor on every page, and nothing else, comes to an end`, async () => {
    await using plc = await startPlc()
    await using host = await startScriptedHost({ plcUrl: plc.url })
    answerWith(host, 'listHosts', 200, JSON.stringify({ hosts: [{ hostname: host.host }] }))
    let pages = 0
    const key = method === 'listHosts' ? 'hosts' : 'repos'
    host.answers.set(`com.atproto.sync.${method}`, (_: IncomingMessage, response: ServerResponse) => {
      response.writeHead(200).end(`{"${key}":[],"cursor":"${++pages}"}`)
    })
    await using stream = await streamOf(host)
    await eventually(
      async () => /lists (its hosts|fewer than)/.test(await saidOf(stream)),
      () => saidOf(stream),
    )
  })

test('large repositories that wait for their turn hold up no others', async () => {
  await using plc = await startPlc()
  await using relay = await startScriptedHost({ plcUrl: plc.url })
  await using hosts = new AsyncDisposableStack()
  const held = new Set<ServerResponse>()
  hosts.defer(() => held.forEach((response) => response.destroy()))
  const names: string[] = []
  for (let n = 0; n < 14; n++) {
    const host = hosts.use(await startScriptedHost({ plcUrl: plc.url }))
    names.push(host.host)
    const isLarge = n < 13
    for (let left = isLarge ? 2 : 1; left > 0; left--)
      (await host.createAccount({ announce: false })).create(collection, {}, 'a')
    // More than a usual repository has, and never the end of it.
    if (isLarge)
      host.answers.set('com.atproto.sync.getRepo', (_, response) => {
        held.add(response)
        response.writeHead(200).write(Buffer.alloc(4.5 * 1024 * 1024))
      })
  }
  answerWith(relay, 'listHosts', 200, JSON.stringify({ hosts: names.map((hostname) => ({ hostname })) }))
  const isOfLarge = ({ host }: Record<string, unknown>): boolean => host !== names.at(-1)
  await using stream = await streamOf(relay)
  const jobs = async (): Promise<Record<string, unknown>[]> =>
    (await operate(stream, 'listJobs')).body['jobs'] as Record<string, unknown>[] // by its lexicon
  await eventually(
    async () => {
      // The last one is asked once more when all others wait.
      const last = (await jobs()).find((job) => !isOfLarge(job))
      return held.size > 24 && last?.['state'] === 'done'
    },
    async () => [held.size, await jobs()],
  )
})
