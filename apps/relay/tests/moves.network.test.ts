/** Accounts that move between real PDSs without pause while they write. The simulator plays what hosts say late or never. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, migrateAccount, sampleRecord, startNetwork, type Account } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { startTestRelay, type TestRelay } from './start-test-relay.ts'

const collection = 'org.impact.collection'

interface OutEvent {
  kind: 'commit' | 'sync'
  rev: string
  since: string | undefined
  atMs: number
}

const healMsMax = 60_000

async function answer(relay: TestRelay, method: string, did: string): Promise<Record<string, unknown>> {
  const response = await fetch(`${relay.url}/xrpc/com.atproto.sync.${method}?did=${encodeURIComponent(did)}`)
  return (await response.json()) as Record<string, unknown> // XRPC answers are objects
}

function outOf(reader: FirehoseReader, { did }: { did: string }): OutEvent[] {
  return reader.frames.flatMap(({ t, body }, at): OutEvent[] => {
    const { repo, rev, since } = body
    if ((t !== '#commit' || repo !== did) && (t !== '#sync' || body['did'] !== did)) return []
    const kind = t === '#commit' ? 'commit' : 'sync'
    return [
      {
        kind,
        rev: String(rev),
        since: typeof since === 'string' ? since : undefined,
        atMs: reader.arrivedMs[at] ?? 0,
      },
    ]
  })
}

/**
 * What is wrong with what came out of an account: commits out of order or twice, and gaps that no `#sync` makes up for
 * within a minute. Undefined when nothing is.
 */
function faultOf(out: readonly OutEvent[]): string | undefined {
  let known = ''
  for (const [at, { kind, rev, since, atMs }] of out.entries()) {
    if (kind === 'commit' && rev <= known) return `the commit ${rev} came after ${known}`
    if (kind === 'sync' && rev < known) return `the #sync ${rev} came after ${known}`
    const isGap = kind === 'commit' && known !== '' && since !== known
    const isHealed = () => out.slice(at).some((each) => each.kind === 'sync' && each.atMs - atMs <= healMsMax)
    if (isGap && !isHealed()) return `${rev} follows ${since}, and ${known} was before it`
    known = rev
  }
  return undefined
}

/** Events of an account that came out, in brief. */
function told(reader: FirehoseReader, { did }: Account): string[] {
  return reader.frames
    .filter(({ body }) => body['did'] === did || body['repo'] === did)
    .map(({ t = '', body: { rev, status, active } }) => `${t} ${JSON.stringify(rev ?? status ?? active)}`)
}

test('accounts that move between three PDSs while they write lose nothing', async () => {
  await using network = await startNetwork({ pds: 3 })
  await using relay = await startTestRelay({
    plcUrl: network.plcUrl,
    sources: network.pds.map(({ host }) => host),
  })
  using reader = new FirehoseReader(relay.url, 0)
  const live = async (pds: number): Promise<Account> => {
    const account = await network.createAccount({ pds })
    const writeTwice = async (): Promise<void> => {
      await account.create(collection, sampleRecord(collection))
      await account.create(collection, sampleRecord(collection))
    }
    await writeTwice()
    for (const step of [1, 2]) {
      await migrateAccount(account, network.pds[(pds + step) % 3] ?? assert.fail())
      await writeTwice()
    }
    return account
  }
  const accounts = await Promise.all([0, 1, 2].map(live))
  for (const account of accounts) {
    const latest = async () => (await answer(relay, 'getLatestCommit', account.did))['rev']
    const { rev } = (await (
      await fetch(`${account.pds.url}/xrpc/com.atproto.sync.getLatestCommit?did=${account.did}`)
    ).json()) as { rev: string } // as the lexicon has it
    await eventually(
      async () => (await latest()) === rev,
      () => told(reader, account),
    )
    assert.equal((await answer(relay, 'getRepoStatus', account.did))['active'], true)
    await reader.until(() => outOf(reader, account).at(-1)?.rev === rev)
    const out = outOf(reader, account)
    assert.equal(faultOf(out), undefined)
    // Each write comes out, unless a #sync made up for it.
    const ops = reader.opsOf(account.did)
    const isComplete = ops.length === account.journal.length
    assert.ok(isComplete || out.at(-1)?.kind === 'sync', JSON.stringify(told(reader, account)))
    if (isComplete) assert.deepEqual(ops, account.journal)
  }
})
