/** What the stream refused of its relay, as operators read it. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { operate, startTestStream, type TestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'

async function refusals(stream: TestStream, query = ''): Promise<Record<string, unknown>[]> {
  const { status, body } = await operate(stream, `listRefusals?limit=100${query}`)
  assert.equal(status, 200, JSON.stringify(body))
  return body['refusals'] as Record<string, unknown>[] // by its lexicon
}

test('refusals are listed with reason, account and number, by account and reason, after a restart too', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'refusals-'))
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  const settings = {
    dataDirectory: directory.path,
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
  }
  const [forged, hidden] = [
    await host.createAccount({ announce: false }),
    await host.createAccount({ announce: false }),
  ]
  {
    await using stream = await startTestStream(settings)
    forged.signer = hidden.signer
    const { seq } = forged.create(follow, {}, 'forged')
    hidden.setStatus('takendown')
    hidden.create(follow, {}, 'later')
    await eventually(async () => (await refusals(stream)).length === 2)
    const [later, bad] = await refusals(stream)
    assert.deepEqual(
      [later?.['reason'], later?.['did'], later?.['kind']],
      ['account-hidden', hidden.did, 'commit'],
    )
    const { at, id, ...rest } = bad ?? {}
    assert.deepEqual([typeof at, typeof id], ['string', 'number'])
    const { detail, ...named } = rest
    assert.equal(typeof detail, 'string')
    assert.deepEqual(named, { reason: 'bad-signature', did: forged.did, kind: 'commit', upstreamSeq: seq })
  }
  await using stream = await startTestStream(settings)
  assert.deepEqual(
    (await refusals(stream, `&did=${hidden.did}`)).map(({ reason }) => reason),
    ['account-hidden'],
  )
  assert.deepEqual(
    (await refusals(stream, '&reason=bad-signature')).map(({ did }) => did),
    [forged.did],
  )
  const first = (await operate(stream, 'listRefusals?limit=1')).body
  const second = (await operate(stream, `listRefusals?limit=1&cursor=${String(first['cursor'])}`)).body
  assert.deepEqual([second['cursor'], (second['refusals'] as object[]).length], [undefined, 1]) // by its lexicon
  const mistyped = (await operate(stream, 'listRefusals?reason=bad-signatures')).body
  const message = 'there is no reason bad-signatures: did you mean bad-signature?'
  assert.deepEqual(mistyped, { error: 'InvalidRequest', message })
  assert.equal((await operate(stream, 'listRefusals?cursor=x')).body['error'], 'InvalidRequest')
})
