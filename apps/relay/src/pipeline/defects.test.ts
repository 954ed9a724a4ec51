/** Defects of ours that are planted for one account: each costs its event, and nothing else. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mock, test } from 'node:test'
import { LogWriteError } from '@tributary/event-log'
import { IdentityError, type Identity, type IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { parseDidKey, readMessage, type SigningKey } from '@tributary/repo-verify'
import { createLogger, createMetrics } from '@tributary/telemetry'
import {
  commitBody,
  encodeEvent,
  eventually,
  nextTid,
  SignedRepo,
  Signer,
  type EventBody,
} from '@tributary/testkit'
import { sampleSource } from '../../tests/sample-source.ts'
import { openLog } from '../open-log.ts'
import { RefusalLog } from '../policy/refusal-log.ts'
import { RefusalRows } from '../policy/refusal-rows.ts'
import { createRelayMetrics } from '../relay-metrics.ts'
import { RelayReport } from '../relay-report.ts'
import { HiddenAccounts } from '../serve/hidden-accounts.ts'
import type { SourceSet } from '../sources/source-set.ts'
import { StateStore } from '../state/state-store.ts'
import { StateTrail } from '../state/state-trail.ts'
import { newVerification } from '../verify/verification.ts'
import { Pipeline, type PipelineOptions } from './pipeline.ts'

const broken = 'did:plc:brokenbrokenbrokenbroken' as Did // of the right form
const good = 'did:plc:goodgoodgoodgoodgoodgood' as Did // of the right form

/** A pipeline with a log on the disk, and one source, which sends what a test says. */
async function startPipeline(plant: (parts: PipelineOptions) => Partial<PipelineOptions>) {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'relay-defects-'))
  const settings = { logRetentionHours: 72, logRetentionBytes: 0, logFloorSeq: 1 }
  const log = await openLog({ dataDirectory, ...settings, logVisible: 'durable' }, () => {})
  const store = new StateStore(join(dataDirectory, 'state.sqlite'))
  const refusalRows = new RefusalRows(join(dataDirectory, 'refusals.sqlite'))
  const refusals = new RefusalLog(refusalRows, assert.ifError)
  const source = sampleSource()
  const trail = new StateTrail(store, () => [source])
  const repos = new Map([good, broken].map((did) => [did, new SignedRepo(did, Signer.fromSeed(did))]))
  const identityOf = (did: Did): Identity | undefined => {
    const signer = repos.get(did)?.signer
    const signingKey = signer && parseDidKey(signer.did())
    const identity = { did, handle: undefined, pdsHost: source.host, signingKey, fetchedAt: Date.now() }
    return identity as Identity // all that is looked at
  }
  const resolver: IdentityResolver = {
    peek: identityOf,
    resolve: async (did) => identityOf(did) ?? assert.fail(),
    purge: () => {},
  }
  const metrics = createMetrics('relay')
  const report = new RelayReport({
    logger: createLogger('relay', { level: 'silent' }),
    counts: createRelayMetrics(metrics),
    refusals,
    sources: { setSourcePaused: () => {} } as unknown as SourceSet, // all that is called
    hidden: new HiddenAccounts(),
    log,
    directory: dataDirectory,
  })
  const parts: PipelineOptions = {
    log,
    accounts: store.accounts,
    resolver,
    inquiry: { status: async () => undefined },
    trail,
    verification: newVerification({ workers: 1 }),
    strict: true,
    identityWaitMsMax: 0,
    refusalOfForwarded: () => undefined,
    takeUnheard: () => false,
    forwardersOf: () => [],
    speakerOf: () => undefined,
    recovery: { missing: () => true, missesMore: () => false, lookAgainAt: () => {}, heard: () => {} },
    observer: report,
  }
  const pipeline = new Pipeline({ ...parts, ...plant(parts) })
  let seq = 0
  const send = (type: string, body: EventBody): Buffer => {
    const bytes = Buffer.from(encodeEvent(type, { seq: ++seq, time: new Date().toISOString(), ...body }))
    pipeline.receive(source, readMessage(bytes), bytes.length, seq - 1)
    return bytes
  }
  const commit = (did: Did): Buffer => {
    const record = { title: nextTid() }
    const repo = repos.get(did) ?? assert.fail()
    return send(
      '#commit',
      commitBody(repo.commit([{ action: 'create', collection: 'org.impact.one', rkey: nextTid(), record }])),
    )
  }
  return {
    log,
    send,
    commit,
    /** Resolves when the cursor has passed all that was sent. */
    allPassed: async () => {
      await eventually(() => {
        source.advance(log.visibleSeq)
        return source.cursor === seq
      })
    },
    revOf: (did: Did) => store.accounts.get(did)?.rev,
    repoOf: (did: Did) => repos.get(did) ?? assert.fail(),
    kept: () => {
      const folder = join(dataDirectory, 'internal-errors')
      return readdirSync(folder).map((name) => readFileSync(join(folder, name)))
    },
    refused: async () => {
      const line = /^relay_events_refused_total\{[^}]*"internal-error"[^}]*\} (\d+)/m.exec(
        await metrics.text(),
      )
      return Number(line?.[1] ?? 0)
    },
    async [Symbol.asyncDispose]() {
      await pipeline.close()
      await trail.close()
      await store.close()
      await log.close()
      await refusals.close()
      refusalRows.close()
      rmSync(dataDirectory, { recursive: true })
    },
  }
}

type TestPipeline = Awaited<ReturnType<typeof startPipeline>>

interface Case {
  plant: (parts: PipelineOptions) => Partial<PipelineOptions>
  send: (pipeline: TestPipeline) => Buffer[]
}

const planted = (): never => {
  throw new TypeError('planted')
}

const sendCommit = ({ commit }: TestPipeline): Buffer[] => [commit(broken)]
const sendCommits = ({ commit }: TestPipeline): Buffer[] => [1, 2, 3, 4].map(() => commit(broken))

/** The resolver, and what it does instead for the one account. */
function resolving(
  { resolver }: PipelineOptions,
  change: Partial<IdentityResolver>,
): Partial<PipelineOptions> {
  const bad = { ...resolver, ...change }
  const of = (did: Did): IdentityResolver => (did === broken ? bad : resolver)
  return {
    resolver: {
      ...resolver,
      peek: (did) => of(did).peek(did),
      resolve: async (did, options) => await of(did).resolve(did, options),
    },
  }
}

const withoutKey = (parts: PipelineOptions) =>
  resolving(parts, {
    peek: (did) => ({
      ...(parts.resolver.peek(did) ?? assert.fail()),
      signingKey: { kind: 'no key' } as unknown as SigningKey, // the defect
    }),
  })

const cases: Record<string, Case> = {
  'what is known of its identity': {
    plant: (parts) => resolving(parts, { peek: planted }),
    send: sendCommit,
  },
  'reading its identity': {
    plant: (parts) => resolving(parts, { peek: () => undefined, resolve: planted }),
    send: sendCommit,
  },
  'verification here': { plant: withoutKey, send: sendCommit },
  'verification in a thread': { plant: withoutKey, send: sendCommits },
  'noting what its host says': {
    plant: ({ accounts }) => {
      const assign = accounts.assign.bind(accounts)
      accounts.assign = (account, ...said) => (account.did === broken ? planted() : assign(account, ...said))
      return {}
    },
    send: ({ send }) => [send('#account', { did: broken, active: true })],
  },
  'leaving its event out': {
    plant: (parts) => ({
      ...resolving(parts, {
        peek: () => undefined,
        resolve: () => Promise.reject(new IdentityError('unavailable', 'away')),
      }),
      recovery: { missing: planted, missesMore: planted, lookAgainAt: planted, heard: planted },
    }),
    send: sendCommit,
  },
}

for (const [what, { plant, send }] of Object.entries(cases))
  test(`a defect in ${what} costs the event, whose bytes are kept, and nobody else notices`, async () => {
    await using pipeline = await startPipeline(plant)
    pipeline.commit(good)
    const lost = send(pipeline)
    pipeline.commit(good)
    await pipeline.allPassed()
    assert.equal(pipeline.revOf(good), pipeline.repoOf(good).rev)
    assert.equal(await pipeline.refused(), lost.length)
    const sorted = (messages: Buffer[]) => messages.toSorted((a, b) => a.compare(b))
    assert.deepEqual(sorted(pipeline.kept()), sorted(lost))
  })

test('a log that cannot be written ends the process, because going on could acknowledge what is lost', async () => {
  await using pipeline = await startPipeline(() => ({}))
  mock.method(pipeline.log, 'append', () => {
    throw new LogWriteError('the disk is full')
  })
  assert.throws(() => pipeline.send('#account', { did: good, active: true }), LogWriteError)
})
