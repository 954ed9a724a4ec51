import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readSettings } from '@tributary/settings'
import { PolicyStore } from '../policy/policy-store.ts'
import { limitsOf } from '../policy/relay-limits.ts'
import { newSourcePolicy } from '../policy/source-policy.ts'
import { relaySettings } from '../settings.ts'
import { SourceSet } from '../sources/source-set.ts'
import { addHostMethods, type HostMethodsOptions } from './host-methods.ts'

type Call = (context: { params: { limit: number }; clientAddress: string }) => Promise<{ hosts: unknown[] }>

test('calls of listHosts are answered in turns, and only so many of one network wait', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'hosts-'))
  const policy = new PolicyStore(
    join(directory, 'policy.sqlite'),
    limitsOf(readSettings(relaySettings, { env: {} })),
  )
  try {
    const sources = new SourceSet(policy, [])
    const place = { host: 'pds.test.dev', url: 'wss://pds.test.dev' }
    sources.add(policy.insertSource(place, newSourcePolicy, { countsForDay: false }))
    const methods = new Map<string, Call>()
    addHostMethods({
      server: { query: (nsid: string, call: Call) => methods.set(nsid, call), procedure: () => undefined },
      sources,
      accounts: { activeOf: () => 0 },
    } as unknown as HostMethodsOptions) // all that listing takes
    const list = methods.get('com.atproto.sync.listHosts') ?? assert.fail('it is not there')
    const call = async (clientAddress: string) => await list({ params: { limit: 10 }, clientAddress })
    const ofOne = await Promise.allSettled(
      Array.from({ length: 60 }, () => call('203.0.113.1')).concat(call('203.0.113.2')),
    )
    const answered = ofOne.filter(({ status }) => status === 'fulfilled').length
    assert.ok(answered > 50 && answered < 60, `${answered} were answered`)
    assert.equal(ofOne.at(-1)?.status, 'fulfilled', 'another network has its turn')
  } finally {
    policy.close()
    rmSync(directory, { recursive: true })
  }
})
