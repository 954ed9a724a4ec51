import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { firehoseClients, inTime, startNetwork } from './index.ts'
import type { SeenEvent } from './index.ts'

const network = await startNetwork()
after(() => network.stop())

for (const client of firehoseClients) {
  test(`${client.name} sees what an account on a real PDS does, from a cursor and live`, async () => {
    const account = await network.createAccount()
    const seen: SeenEvent[] = []
    const live = Promise.withResolvers<void>()
    const first = Promise.withResolvers<void>()
    const firehose = await client.open({
      url: account.pds.url.replace('http', 'ws'),
      cursor: 0,
      plcUrl: network.plcUrl,
      onEvent(event) {
        if (event.did !== account.did) return
        seen.push(event)
        if (event.what === 'sync') first.resolve()
        if (event.what.startsWith('delete')) live.resolve()
      },
      onError: live.reject,
    })
    await inTime(first.promise, () => seen)
    await account.create('a.b.c', {}, 'x')
    await account.put('a.b.c', 'x', { more: 1 })
    await account.delete('a.b.c', 'x')
    await inTime(live.promise, () => seen)
    await firehose.close()
    assert.deepEqual(
      seen.map(({ what }) => what),
      ['identity', 'account', 'sync', 'create a.b.c/x', 'update a.b.c/x', 'delete a.b.c/x'],
    )
    assert.ok(seen.every(({ seq }, index) => seq > (seen[index - 1]?.seq ?? 0)))
  })
}
