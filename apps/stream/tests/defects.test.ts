/** Defects of ours that are planted for one account: each costs its event, and nobody else notices. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { IdentityResolver } from '@tributary/identity'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { startIngest } from './start-ingest.ts'

const follow = 'app.attested.graph.follow'
const planted = (): never => {
  throw new TypeError('planted')
}

/** How reading the identity of one account goes wrong. */
const defects: Record<string, Partial<IdentityResolver>> = {
  'what is known of its identity': { peek: planted },
  'reading its identity': { peek: () => undefined, resolve: planted },
}

for (const [what, change] of Object.entries(defects))
  test(`a defect in ${what} costs the event, and the cursor passes it`, async () => {
    await using plc = await startPlc()
    await using host = await startScriptedHost({ plcUrl: plc.url })
    const [good, broken] = [
      await host.createAccount({ announce: false }),
      await host.createAccount({ announce: false }),
    ]
    const directory = mkdtempSync(join(tmpdir(), 'stream-defects-'))
    {
      await using stream = await startIngest({
        directory,
        relayUrl: host.url,
        plcUrl: plc.url,
        resolving: (resolver) => {
          const bad = { ...resolver, ...change }
          const of = (did: string): IdentityResolver => (did === broken.did ? bad : resolver)
          return {
            peek: (did) => of(did).peek(did),
            resolve: async (did, options) => await of(did).resolve(did, options),
            purge: (did, options) => resolver.purge(did, options),
          }
        },
      })
      good.create(follow, {}, 'before')
      broken.create(follow, {}, 'lost')
      good.create(follow, {}, 'after')
      await stream.until(() => stream.rows.length === 2)
      await eventually(() => stream.ingest.cursor === host.lastSeq)
      assert.deepEqual(
        stream.rows.map(({ rkey }) => rkey),
        ['before', 'after'],
      )
      assert.match(await stream.refused(), /refused_total\{[^}]*"internal-error"[^}]*\} 1/)
      assert.equal(stream.states.get(broken.did)?.needsRefetch, true)
    }
    rmSync(directory, { recursive: true })
  })
