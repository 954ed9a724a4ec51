import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { newAccount } from '../../tests/sample-account.ts'
import { isHidden, publicStatus, type Account } from './account.ts'

test('what an operator decided counts before the quota of the host, and that before the word of the host', () => {
  const of = (values: Partial<Account>): Account =>
    Object.assign(newAccount('did:plc:a' as Did), { upstreamStatus: 'active', ...values }) // only a name here
  for (const [values, status, isLeftOut] of [
    [{}, undefined, false],
    [{ localStatus: 'takendown' }, 'takendown', true],
    [{ localStatus: 'suspended', upstreamStatus: 'deactivated', throttledAtMs: 1 }, 'suspended', true],
    [{ throttledAtMs: 1 }, 'throttled', false],
    [{ upstreamStatus: 'deactivated' }, 'deactivated', false],
    [{ upstreamStatus: 'deleted' }, 'deleted', true],
  ] as const) {
    const account = of(values)
    assert.deepEqual(
      [publicStatus(account).status, isHidden(account)],
      [status, isLeftOut],
      JSON.stringify(values),
    )
    assert.equal(publicStatus(account).active, status === undefined)
  }
})
