import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { eventually } from '@tributary/testkit'
import { AccountTable } from '../state/account-table.ts'
import { InactiveSweep } from './inactive-sweep.ts'

const did = (name: string): Did => `did:plc:${name.padStart(24, 'a')}` as Did // of the right form

const unwantedSource = 2

/** Sweeps over accounts of these statuses until nothing is left to ask; what was asked, and what was applied. */
async function sweepOver(
  statuses: Record<string, string>,
  answer: (asking: Did, accounts: AccountTable) => string | undefined,
  confirmMs: number,
): Promise<{ asked: Did[]; applied: string[] }> {
  const accounts = new AccountTable()
  for (const [name, status] of Object.entries(statuses))
    accounts.assign(accounts.take(did(name)), name.startsWith('unwanted') ? unwantedSource : 1, status)
  const asked: Did[] = []
  const applied: string[] = []
  let rounds = 0
  let lastAskedIn = 0
  const sweep = new InactiveSweep({
    accounts: {
      all: () => {
        rounds++
        return accounts.all()
      },
    },
    isSourceWanted: ({ sourceId }) => sourceId !== unwantedSource,
    tickMs: 1,
    confirmMs,
    askHost: async (asking) => {
      asked.push(asking)
      lastAskedIn = rounds
      return Promise.resolve(answer(asking, accounts))
    },
    onStatus: (account, status) => {
      applied.push(`${account.did} ${status}`)
      accounts.assign(account, 1, status)
    },
  })
  await eventually(() => rounds > lastAskedIn + 2)
  sweep.close()
  return { asked, applied }
}

test('the hosts of inactive accounts are asked, and what they say twice is applied unless an event said more', async () => {
  const { asked, applied } = await sweepOver(
    { active: 'active', away: 'deactivated', silent: 'suspended', gone: 'deleted', meanwhile: 'deactivated' },
    (asking, accounts) => {
      if (asking === did('silent')) return undefined
      if (asking === did('meanwhile')) accounts.assign(accounts.take(asking), 1, 'takendown')
      return 'active'
    },
    0,
  )
  assert.deepEqual(asked.toSorted(), ['away', 'away', 'meanwhile', 'silent'].map(did).toSorted())
  assert.deepEqual(applied, [`${did('away')} active`])
})

test('an account that is just coming back is left to its own events', async () => {
  const early = await sweepOver({ back: 'deactivated' }, () => 'active', 60_000)
  assert.deepEqual(early, { asked: [did('back')], applied: [] })
  let answers = 0
  const again = await sweepOver(
    { away: 'deactivated' },
    () => (++answers === 1 ? 'active' : 'deactivated'),
    0,
  )
  assert.deepEqual(again, { asked: [did('away'), did('away')], applied: [] })
})

test('the host of a source that is not wanted is not asked, and an answer that comes late does not count', async () => {
  const unwanted = await sweepOver({ unwanted: 'deactivated', away: 'deactivated' }, () => 'active', 0)
  assert.deepEqual(unwanted, { asked: [did('away'), did('away')], applied: [`${did('away')} active`] })
  const late = await sweepOver(
    { away: 'deactivated' },
    (asking, accounts) => {
      // As if its source were banned while the answer is under way.
      accounts.take(asking).sourceId = unwantedSource
      return 'active'
    },
    0,
  )
  assert.deepEqual(late, { asked: [did('away')], applied: [] })
})
