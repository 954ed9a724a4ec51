import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import { type Account, startNetwork } from '@tributary/testkit'
import { putEvent, Scenario } from '../../tests/scenario.ts'
import { Tally } from '../../tests/tally.ts'
import { sweepAccounts } from './account-sweep.ts'

const logger = createLogger('index-test', { level: 'silent' })
const allowedPrivateHosts = ['localhost']
const dayMs = 86_400_000

function write(world: Scenario, account: Account, rkey: string): void {
  const { event } = putEvent(world.nextSeq(), world.now, rkey, 'org.impact.context.evaluation', rkey, {})
  world.send({ ...event, did: account.did as Did }) // an account of a real PDS
}

test('an account whose deactivation, deletion or return was missed is found at its host', async () => {
  await using network = await startNetwork()
  await using world = await Scenario.start()
  const active = await network.createAccount()
  const leaving = await network.createAccount()
  const deleted = await network.createAccount()
  write(world, active, 'active')
  write(world, leaving, 'leaving')
  write(world, deleted, 'deleted')
  await leaving.deactivate()
  await deleted.deleteAccount()

  let nowMs = Date.now()
  const results = new Tally<string>()
  const stop = new AbortController()
  const resolver = createResolver({ plcUrl: network.plcUrl, allowedPrivateHosts, nowMs: () => nowMs })
  const options = {
    connection: world.connection,
    fold: world.fold,
    resolver,
    allowedPrivateHosts,
    everyMs: dayMs,
    isCaughtUp: () => true,
    logger,
    onChecked: results.add,
    nowMs: () => nowMs,
  }
  const sweep = async (changed: number, agrees: number): Promise<void> => {
    const stopping = new AbortController()
    const done = sweepAccounts(options, AbortSignal.any([stop.signal, stopping.signal]))
    await results.until('changed', changed)
    await results.until('agrees', agrees)
    stopping.abort()
    await done
  }

  await sweep(2, 1)
  assert.deepEqual(world.entries(), ['evaluation.create active'])
  assert.equal(world.connection.sqlite.prepare('select count(*) from records').pluck().get(), 3n)

  await leaving.activate()
  nowMs += 2 * dayMs
  await sweep(3, 3)
  assert.deepEqual(world.entries().toSorted(), ['evaluation.create active', 'evaluation.create leaving'])
})

test('a host that gives no answer changes nothing, and the account is not asked again at once', async () => {
  await using network = await startNetwork()
  await using world = await Scenario.start()
  const account = await network.createAccount()
  write(world, account, 'kept')
  await network.pds[0]?.stop()
  const results = new Tally<string>()
  const stop = new AbortController()
  const done = sweepAccounts(
    {
      connection: world.connection,
      fold: world.fold,
      resolver: createResolver({ plcUrl: network.plcUrl, allowedPrivateHosts }),
      allowedPrivateHosts,
      everyMs: dayMs,
      isCaughtUp: () => true,
      logger,
      onChecked: results.add,
    },
    stop.signal,
  )
  await results.until('no-answer', 1)
  stop.abort()
  await done
  assert.deepEqual(world.entries(), ['evaluation.create kept'])
  assert.notEqual(world.connection.sqlite.prepare('select checkedAt from accounts').pluck().get(), 0n)
})
