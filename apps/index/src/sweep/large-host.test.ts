import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IdentityResolver, safeFetch } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import { did as didOf, Scenario } from '../../tests/scenario.ts'
import { Tally } from '../../tests/tally.ts'
import { GoneAnswers } from '../gone-answers.ts'
import { sweepAccounts } from './account-sweep.ts'

test('a host with very many accounts takes its own time for them, and not that of others', async (t) => {
  await using world = await Scenario.start()
  const names = Array.from({ length: 200 }, (_, n) => `n${n}`)
  for (const name of [...names, 'left']) await world.put(name, 'org.impact.context.evaluation', name, {})
  // The others come first.
  const account = (await world.rows('accounts')).find(({ did }) => did === didOf('left'))
  assert.ok(account)
  await world.connection.write((batch) => batch.put('accounts', [{ ...account, checkedAt: 1n }]))
  let asked = 0
  let askedBefore = 0
  const resolve = async (did: Did): Promise<object> => ({
    pdsUrl: `https://${did === account.did ? 'small' : 'large'}.example`,
  })
  const fetch = async (url: string): Promise<object> => {
    const { hostname, searchParams } = new URL(url)
    const active = hostname === 'large.example'
    if (active) asked++
    else askedBefore = asked
    return { status: 200, body: Buffer.from(JSON.stringify({ did: searchParams.get('did'), active })) }
  }
  const results = new Tally<string>()
  const stop = new AbortController()
  t.after(() => stop.abort())
  const done = sweepAccounts(
    {
      writer: world.connection,
      fold: world.fold,
      resolver: { resolve } as unknown as IdentityResolver, // as far as it is asked
      goneAnswers: new GoneAnswers({ onDoubt: () => undefined }),
      allowedPrivateHosts: [],
      everyMs: 86_400_000,
      paceMs: 1,
      hostPaceMs: 20,
      isCaughtUp: () => true,
      newestEventAt: () => undefined,
      logger: createLogger('index-test', { level: 'silent' }),
      onChecked: results.add,
      fetch: fetch as unknown as typeof safeFetch, // as far as it is asked
    },
    stop.signal,
  )
  await results.until('changed', 1)
  assert.ok(askedBefore < 100, `${askedBefore} accounts of one host were asked about before`)
  // All of them have their turn, and none waits for a minute in which nothing else is due.
  await results.until('agrees', 200)
  stop.abort()
  await done
})
