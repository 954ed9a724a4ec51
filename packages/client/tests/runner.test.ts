/** The runner for indexers, over a real stream. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { encode } from '@atcute/cbor'
import * as v from '@atcute/lexicons/validations'
import {
  createStreamClient,
  type Handlers,
  MemoryStore,
  ParkingFullError,
  runIndexer,
  type RunnerOptions,
  type RunnerReport,
} from '../src/node.ts'
import { did, row, rows, StreamServer } from './stream-server.ts'

const activity = 'org.impact.claim.activity'
const fast = { firstMs: 0, maxMs: 0 }

interface Ran {
  reports: RunnerReport[]
  store: MemoryStore
}

/** Runs to the head of the server. */
async function run<C>(
  server: StreamServer,
  handlers: Handlers<C>,
  options: Partial<RunnerOptions<C>> & { store?: MemoryStore } = {},
): Promise<Ran> {
  const reports: RunnerReport[] = []
  const store = options.store ?? new MemoryStore()
  await runIndexer({
    client: createStreamClient({ url: server.url, retry: fast }),
    read: { throughSeq: server.headSeq },
    retry: { ...fast, attemptsMax: 3 },
    onReport: (report) => reports.push(report),
    ...options,
    handlers,
    store,
  })
  return { reports, store }
}

function ofRecord(seq: number, rkey: string): ReturnType<typeof row> {
  return row(seq, { rkey })
}

test('events go to the handler of their collection, else of the longest pattern that fits, else of their kind', async () => {
  await using server = await StreamServer.start()
  const identity = { kind: 4, payload: encode({ did, seq: 1, time: '2026-01-01T00:00:00Z' }) } as const
  await server.append(
    row(1),
    row(2, { kind: 3, payload: new Uint8Array() }),
    row(3, { collection: 'org.impact.claim.rights' }),
    row(4, { collection: 'org.impact.collection' }),
    row(5, { collection: 'app.other.thing' }),
    row(6, { ...identity, collection: '', rkey: '', rev: '' }),
  )
  const calls: string[] = []
  const called =
    (name: string) =>
    ({ seq }: { seq: number }): void =>
      void calls.push(`${name} ${seq}`)
  const { store } = await run(
    server,
    {
      collections: {
        'org.impact.*': { put: called('all') },
        'org.impact.claim.*': { put: called('claims') },
        [activity]: { put: called('put'), delete: called('delete') },
      },
      identity: called('identity'),
    },
    { order: 'account' },
  )
  assert.deepEqual(calls, ['put 1', 'delete 2', 'claims 3', 'all 4', 'identity 6'])
  assert.equal(await store.load(), 6)
  const asked = new URLSearchParams(
    server.requests.find((each) => each.startsWith('subscribe'))?.split('?')[1],
  )
  assert.deepEqual(asked.getAll('kinds'), ['commit', 'identity'])
  assert.ok(asked.getAll('collections').includes(activity))
})

test('no more handlers run at a time than were asked for, and no fewer', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 60))
  let running = 0
  let most = 0
  const put = async (): Promise<void> => {
    most = Math.max(most, ++running)
    for (let turns = 0; turns < 3; turns++) await nextTurn()
    running--
  }
  const read = { throughSeq: 60, archiveFirst: true }
  await run(server, { collections: { [activity]: { put } } }, { concurrency: 3, read })
  assert.equal(most, 3)
})

test('the events of one record are handled in order, and those of an account by themselves', async () => {
  await using server = await StreamServer.start()
  const account = {
    kind: 5,
    payload: encode({ active: false, did, seq: 1, time: '2026-01-01T00:00:00Z' }),
  } as const
  await server.append(
    ofRecord(1, 'a'),
    ofRecord(2, 'a'),
    ofRecord(3, 'b'),
    ofRecord(4, 'c'),
    ofRecord(5, 'd'),
    row(6, { ...account, collection: '', rkey: '', rev: '' }),
    ofRecord(7, 'e'),
  )
  const log: string[] = []
  const held = new Map<number, () => void>()
  const handle = async ({ seq }: { seq: number }): Promise<void> => {
    log.push(`begin ${seq}`)
    const { promise, resolve } = Promise.withResolvers<void>()
    held.set(seq, resolve)
    waiting?.()
    await promise
    held.delete(seq)
    log.push(`end ${seq}`)
  }
  let waiting: (() => void) | undefined
  const begun = async (...seqs: number[]): Promise<void> => {
    while (!seqs.every((seq) => held.has(seq))) {
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting = resolve
      await promise
    }
  }
  const store = new MemoryStore()
  const handlers = { collections: { [activity]: { put: handle } }, account: handle }
  const running = run(server, handlers, { concurrency: 3, store })
  await begun(1, 3, 4)
  held.get(3)?.()
  await begun(1, 4, 5)
  assert.ok(!log.includes('begin 2'), 'the record before it is not done')
  assert.equal(await store.load(), undefined, 'nothing is saved past the first event')
  for (const seq of [4, 5, 1]) held.get(seq)?.()
  await begun(2)
  assert.ok(!log.includes('begin 6') && !log.includes('begin 7'))
  held.get(2)?.()
  await begun(6)
  assert.ok(!log.includes('begin 7'), 'what comes after an event of the account waits for it')
  held.get(6)?.()
  await begun(7)
  held.get(7)?.()
  await running
  assert.equal(await store.load(), 7)
})

test('a handler that fails is called again, and then its event and those after it of the record are parked', async () => {
  await using server = await StreamServer.start()
  await server.append(ofRecord(1, 'good'), ofRecord(2, 'bad'), ofRecord(3, 'good'), ofRecord(4, 'bad'))
  const handled: number[] = []
  let isBroken = true
  const put = ({ seq }: { seq: number }): void => {
    if (seq === 2 && isBroken) throw new Error('the database says no')
    handled.push(seq)
  }
  const handlers = { collections: { [activity]: { put } } }
  const { reports, store } = await run(server, handlers)
  assert.deepEqual(handled, [1, 3])
  assert.equal(await store.load(), 4)
  assert.deepEqual(
    reports.map(({ type, ...rest }) => ('attempt' in rest ? `${type} ${rest.attempt}` : type)),
    ['retrying 1', 'retrying 2', 'parked', 'parked'],
  )
  const told = (await store.parked()).map(({ event: { seq }, ...rest }) => ({ seq, ...rest }))
  assert.deepEqual(told, [
    { seq: 2, reason: 'handler-failed', attempts: 3, detail: 'the database says no' },
    { seq: 4, reason: 'after-parked', attempts: 0, detail: 'the event of seq 2 is parked' },
  ])

  await run(server, handlers, { store })
  assert.equal((await store.parked())[0]?.attempts, 6, 'each run tries what is parked again')
  isBroken = false
  await server.append(ofRecord(5, 'bad'))
  const second = await run(server, handlers, { store })
  assert.deepEqual(handled, [1, 3, 2, 4, 5], 'in the order of the record')
  assert.deepEqual(
    second.reports.map(({ type }) => type),
    ['unparked', 'unparked'],
  )
  assert.deepEqual(await store.parked(), [])
})

test('a parked record holds back what is of its whole account, and no identity, other record or other account', async () => {
  await using server = await StreamServer.start()
  const none = { collection: '', rkey: '', rev: '' }
  const time = '2026-01-01T00:00:00Z'
  const identity = { kind: 4, payload: encode({ did, seq: 1, time }), ...none } as const
  const account = { kind: 5, payload: encode({ active: false, did, seq: 1, time }), ...none } as const
  const other = 'did:plc:bbbbbbbbbbbbbbbbbbbbbbbb'
  await server.append(
    ofRecord(1, 'bad'),
    row(2, identity),
    ofRecord(3, 'good'),
    row(4, account),
    ofRecord(5, 'good'),
    row(6, identity),
    row(7, { did: other }),
  )
  const handled: number[] = []
  let isBroken = true
  const handle = ({ seq }: { seq: number }): void => {
    if (seq === 1 && isBroken) throw new Error('the database says no')
    handled.push(seq)
  }
  const handlers = { collections: { [activity]: { put: handle } }, identity: handle, account: handle }
  const { reports, store } = await run(server, handlers)
  assert.deepEqual(
    handled.toSorted((a, b) => a - b),
    [2, 3, 7],
  )
  assert.deepEqual(
    (await store.parked()).map(({ event, reason }) => `${event.seq} ${reason}`),
    ['1 handler-failed', '4 after-parked', '5 after-parked', '6 after-parked'],
  )
  assert.equal(reports.filter(({ type }) => type === 'parked').length, 4, 'each of them is reported')
  isBroken = false
  await run(server, handlers, { store })
  const second = handled.slice(3)
  assert.deepEqual(second.slice(0, 2), [1, 4], 'the record, then the account, then what follows it')
  assert.deepEqual(
    second.slice(2).toSorted((a, b) => a - b),
    [5, 6],
  )
  assert.deepEqual(await store.parked(), [])
})

/** Records with a title. */
const titled = v.record(v.string(), v.object({ $type: v.literal(activity), title: v.string() }))
const untitled = encode({ $type: activity, title: 7 })

test('a record has the type of the lexicon of its handler, and is reported and left out when it does not fit', async () => {
  await using server = await StreamServer.start()
  const place = { rkey: 'same' }
  await server.append(row(1), row(2, { payload: untitled, ...place }), row(3, place))
  const titles: string[] = []
  const { store, reports } = await run(server, {
    collections: {
      [activity]: { lexicon: titled, put: ({ record }) => void titles.push(record.title.toUpperCase()) },
    },
  })
  assert.deepEqual(titles, ['ACTIVITY 1', 'ACTIVITY 3'], 'a later version of the record is handled')
  assert.equal(await store.load(), 3)
  assert.deepEqual(await store.parked(), [])
  const [report] = reports
  assert.ok(reports.length === 1 && report?.type === 'invalid-record')
  assert.equal(report.event.seq, 2)
  assert.match(report.detail, /title|string/)
})

test('an account that writes records which do not fit ends no run, and takes no place of parked events', async () => {
  await using server = await StreamServer.start()
  const [bad, other] = [1001, 'did:plc:bbbbbbbbbbbbbbbbbbbbbbbb']
  const time = '2026-01-01T00:00:00Z'
  const account = { kind: 5, payload: encode({ active: true, did, seq: 1, time }) } as const
  await server.append(
    ...rows(1, bad, { payload: untitled }),
    row(bad + 1, { ...account, collection: '', rkey: '', rev: '' }),
    ...rows(bad + 2, bad + 4),
    ...rows(bad + 5, bad + 7, { did: other }),
  )
  const handled: number[] = []
  const handle = ({ seq }: { seq: number }): void => void handled.push(seq)
  const handlers = { collections: { [activity]: { lexicon: titled, put: handle } }, account: handle }
  const { store, reports } = await run(server, handlers)
  assert.deepEqual(
    handled.toSorted((a, b) => a - b),
    [1, 2, 3, 4, 5, 6, 7].map((n) => bad + n),
  )
  assert.deepEqual(new Set(reports.map(({ type }) => type)), new Set(['invalid-record']))
  assert.equal(reports.length, bad)
  assert.deepEqual(await store.parked(), [])
  assert.equal(await store.load(), server.headSeq)
})

test('a record that does not fit is parked behind an event of its own, and left out when its turn comes', async () => {
  await using server = await StreamServer.start()
  const place = { rkey: 'same' }
  await server.append(row(1, place), row(2, { payload: untitled, ...place }), row(3, place))
  const handled: number[] = []
  let isBroken = true
  const put = ({ seq }: { seq: number }): void => {
    if (isBroken) throw new Error('the database says no')
    handled.push(seq)
  }
  const handlers = { collections: { [activity]: { lexicon: titled, put } } }
  const { store } = await run(server, handlers)
  assert.deepEqual(
    (await store.parked()).map(({ event }) => event.seq),
    [1, 2, 3],
  )
  isBroken = false
  const { reports } = await run(server, handlers, { store })
  assert.deepEqual(handled, [1, 3])
  assert.deepEqual(
    reports.map((report) => 'event' in report && `${report.type} ${report.event.seq}`),
    ['unparked 1', 'invalid-record 2', 'unparked 3'],
  )
  assert.deepEqual(await store.parked(), [])
})

test('a run ends when too much is parked, and when its store fails', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 10))
  const put = (): never => {
    throw new Error('nothing works')
  }
  const store = new MemoryStore()
  const failing = run(
    server,
    { collections: { [activity]: { put } } },
    { store, parkedMax: 3, concurrency: 1 },
  )
  await assert.rejects(failing, ParkingFullError)
  assert.equal((await store.parked()).length, 3)
  assert.ok(((await store.load()) ?? 0) <= 3)

  class FullDisk extends MemoryStore {
    override async park(): Promise<void> {
      throw new Error('the disk is full')
    }
  }
  await assert.rejects(
    run(server, { collections: { [activity]: { put } } }, { store: new FullDisk() }),
    /the disk is full/,
  )
  class LostDisk extends MemoryStore {
    override async save(): Promise<void> {
      throw new Error('the disk is gone')
    }
  }
  await assert.rejects(
    run(server, { collections: { [activity]: {} } }, { store: new LostDisk() }),
    /the disk is gone/,
  )
})

test('what a handler throws is parked, whatever it is', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 3))
  const thrown = [Object.create(null) as unknown, Object.assign(new Error('x'), { message: {} }), 5]
  const put = ({ seq }: { seq: number }): never => {
    throw thrown[seq - 1]
  }
  const { store } = await run(server, { collections: { [activity]: { put } } })
  const details = (await store.parked()).map(({ detail }) => detail)
  assert.deepEqual(details, ['what the handler threw has no text', '[object Object]', '5'])
})

test('a run that fails has nothing more to save when that is told', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 30))
  let saving = 0
  class SlowDisk extends MemoryStore {
    override async save(cursor: number): Promise<void> {
      saving++
      await new Promise((resolve) => setTimeout(resolve, 20))
      await super.save(cursor)
      saving--
    }
    override async park(): Promise<void> {
      throw new Error('the disk is full')
    }
  }
  const put = ({ seq }: { seq: number }): void => {
    if (seq === 20) throw new Error('this one fails')
  }
  const store = new SlowDisk()
  await assert.rejects(run(server, { collections: { [activity]: { put } } }, { store }), /the disk is full/)
  assert.equal(saving, 0)
  assert.ok(((await store.load()) ?? 0) <= 20)
})

test('an aborted run waits for the handlers that run, saves what they did, and begins no others', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 10))
  const stop = new AbortController()
  const handled: number[] = []
  const { store } = await run(
    server,
    {
      collections: {
        [activity]: {
          put: async ({ seq }, { signal }) => {
            assert.equal(signal.aborted, false)
            if (seq === 2) stop.abort()
            await Promise.resolve()
            handled.push(seq)
          },
        },
      },
    },
    { signal: stop.signal, concurrency: 1 },
  )
  assert.deepEqual(handled, [1, 2])
  assert.equal(await store.load(), 2)
})

test('an aborted run ends also while it waits for room', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 10))
  const stop = new AbortController()
  const begun: number[] = []
  const put = async ({ seq }: { seq: number }, { signal }: { signal: AbortSignal }): Promise<void> => {
    begun.push(seq)
    await nextTurn()
    stop.abort()
    signal.throwIfAborted()
  }
  const options = { signal: stop.signal, pendingMax: 1 }
  const { store } = await run(server, { collections: { [activity]: { put } } }, options)
  assert.deepEqual(begun, [1])
  assert.equal(await store.load(), undefined)
})

test('what cannot be read of an archive is reported, and the cursor goes on', async () => {
  await using server = await StreamServer.start()
  await server.seal([row(1), row(2, { payload: new Uint8Array([0xff]) }), row(3)])
  const handled: number[] = []
  const { reports } = await run(
    server,
    { collections: { [activity]: { put: ({ seq }) => void handled.push(seq) } } },
    { read: { throughSeq: 3, archiveFirst: true } },
  )
  assert.deepEqual(handled, [1, 3])
  assert.deepEqual(
    reports.map((report) => report.type === 'gap' && [report.gap.afterSeq, report.gap.throughSeq]),
    [[1, 2]],
  )
})

test('a run without a handler, for an impossible collection, or with counts that let nothing happen, says so', async () => {
  await using server = await StreamServer.start()
  await server.append(row(1))
  await assert.rejects(run(server, {}), { code: 'InvalidRequest' })
  await assert.rejects(run(server, { collections: { nonsense: {} } }), { code: 'InvalidRequest' })
  const wrong = [{ concurrency: 0 }, { pendingMax: 0 }, { retry: { attemptsMax: Number.NaN } }]
  for (const options of wrong)
    await assert.rejects(run(server, { account: () => undefined }, options), { code: 'InvalidRequest' })
})
