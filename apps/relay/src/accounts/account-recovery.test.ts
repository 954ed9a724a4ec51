import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { sampleSource } from '../../tests/sample-source.ts'
import { TestClock } from '../../tests/test-clock.ts'
import { AccountTable } from '../state/account-table.ts'
import { AccountRecovery, type AccountRecoveryOptions, type RecoveryPipeline } from './account-recovery.ts'

test('of ten thousand accounts that miss events few documents are read at a time, and none when no more may wait', async () => {
  const clock = new TestClock()
  const accounts = new AccountTable()
  const source = sampleSource(() => clock.nowMs())
  for (let n = 0; n < 10_000; n++) {
    const account = accounts.take(`did:plc:${String(n).padStart(24, 'a')}` as Did) // of the right form
    accounts.assign(account, source.id, 'active')
    account.isIncomplete = true
  }
  let peeks = 0
  const options = {
    accounts,
    clock,
    sources: {
      byId: () => source,
      byHost: (host: string) => (host === source.host ? source : undefined),
      sources: [source],
    },
    resolver: { peek: () => void peeks++ },
    inquiry: { locate: () => new Promise(() => {}) },
    isHostBanned: () => false,
    onDefect: (_: Did, error: unknown) => assert.fail(String(error)),
  } as unknown as AccountRecoveryOptions // all of them that this uses
  using recovery = new AccountRecovery(options)
  const pipeline = { newest: 0, outcomes: { noteHost: () => {} } }
  recovery.start(pipeline as unknown as RecoveryPipeline)
  assert.ok(peeks > 0 && peeks <= 200, `${peeks} documents`)
  await clock.pass(60_000)
  assert.equal(recovery.waiting, 2000)
  peeks = 0
  await clock.pass(60_000)
  assert.equal(peeks, 0)
})
