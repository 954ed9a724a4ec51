import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { AccountTable } from '../state/account-table.ts'
import { InactiveSweep } from './inactive-sweep.ts'

const did = (name: string): Did => `did:plc:${name.padStart(24, 'a')}` as Did // of the right form

test('the hosts of inactive accounts are asked once, and what they say now is applied unless an event said more', async () => {
  const accounts = new AccountTable()
  for (const [name, status] of Object.entries({
    active: 'active',
    away: 'deactivated',
    silent: 'suspended',
    gone: 'deleted',
    meanwhile: 'deactivated',
  }))
    accounts.assign(accounts.take(did(name)), 1, status)
  const asked: Did[] = []
  const applied: string[] = []
  const isThrough = Promise.withResolvers<void>()
  const sweep = new InactiveSweep({
    accounts: {
      all: () => {
        if (asked.length === 3) isThrough.resolve()
        return accounts.all()
      },
    },
    tickMs: 1,
    async askHost(asking) {
      asked.push(asking)
      if (asking === did('silent')) return undefined
      if (asking === did('meanwhile')) accounts.assign(accounts.take(asking), 1, 'takendown')
      return 'active'
    },
    onStatus: (account, status) => applied.push(`${account.did} ${status}`),
  })
  await isThrough.promise
  sweep.close()
  assert.deepEqual(asked, [did('away'), did('silent'), did('meanwhile')])
  assert.deepEqual(applied, [`${did('away')} active`])
})
