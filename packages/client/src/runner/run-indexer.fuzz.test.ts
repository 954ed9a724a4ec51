import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did, Nsid, RecordKey } from '@tributary/protocol'
import * as fc from 'fast-check'
import type { ClientEvent, StreamBatch } from '../batch.ts'
import type { ReplayOptions } from '../client.ts'
import { InvalidRecordError } from '../typed-record.ts'
import { runIndexer } from './run-indexer.ts'
import { inSeqOrder, type ParkedEvent, type RunnerStore } from './runner-store.ts'

const never = new Promise<never>(() => undefined)

/** What a case draws from. */
type Draw = (below: number) => number

/** What the disk has: it outlives every process. */
class Disk {
  readonly events: readonly ClientEvent[]
  cursor: number | undefined
  readonly parked = new Map<number, ParkedEvent>()
  /** The newest put of each record. */
  readonly state = new Map<string, number>()
  readonly handled = new Set<number>()

  constructor(events: readonly ClientEvent[]) {
    this.events = events
  }

  apply(event: ClientEvent): void {
    applyTo(this.state, event)
    this.handled.add(event.seq)
  }

  assertNothingLost(): void {
    const lost = this.events.filter(
      ({ seq }) => seq <= (this.cursor ?? 0) && !this.handled.has(seq) && !this.parked.has(seq),
    )
    assert.deepEqual(lost, [], `cursor ${this.cursor}`)
  }
}

/** An indexer that is killed at one of its steps. What it does afterwards has no effect. */
class Process {
  readonly #disk: Disk
  readonly #draw: Draw
  #stepsLeft: number
  readonly #killed = Promise.withResolvers<'killed'>()
  /** Events that no handler takes until somebody repairs it. */
  readonly #poison: ReadonlySet<number>
  readonly #lastOfRecord = new Map<string, number>()

  constructor(disk: Disk, draw: Draw, poison: ReadonlySet<number>, stepsLeft: number) {
    this.#disk = disk
    this.#draw = draw
    this.#poison = poison
    this.#stepsLeft = stepsLeft
  }

  async run(order: 'record' | 'account'): Promise<'done' | 'killed'> {
    const throughSeq = this.#disk.events.at(-1)?.seq ?? 0
    const handle = async (event: ClientEvent): Promise<void> => await this.#handle(event)
    const running = runIndexer({
      client: { replay: (options) => this.#replay(options) },
      store: this.#store(),
      handlers: {
        collections: { 'org.impact.*': { put: handle, delete: handle } },
        account: handle,
        identity: handle,
      },
      onReport: (report) => {
        if (report.type === 'invalid-record') this.#disk.handled.add(report.event.seq)
      },
      order,
      concurrency: 1 + this.#draw(6),
      pendingMax: 1 + this.#draw(12),
      retry: { attemptsMax: 2, firstMs: 0, maxMs: 0 },
      read: { throughSeq },
    })
    return await Promise.race([running.then(() => 'done' as const), this.#killed.promise])
  }

  /** Anything may happen to the process before and after each of its effects. */
  async #step(): Promise<void> {
    if (this.#stepsLeft <= 0) await never
    if (--this.#stepsLeft === 0) {
      this.#killed.resolve('killed')
      await never
    }
    for (let turns = this.#draw(5); turns > 0; turns--) await Promise.resolve()
    if (this.#stepsLeft <= 0) await never
  }

  async #handle(event: ClientEvent): Promise<void> {
    await this.#step()
    if (isInvalid(event)) throw new InvalidRecordError('no handler will ever take it')
    if (this.#poison.has(event.seq) || this.#draw(10) === 0) throw new Error('not today')
    const record = recordOf(event)
    assert.ok(event.seq >= (this.#lastOfRecord.get(record) ?? 0), `${record}: ${event.seq} comes too late`)
    this.#lastOfRecord.set(record, event.seq)
    this.#disk.apply(event)
    await this.#step()
  }

  async *#replay({ cursor = 0 }: ReplayOptions = {}): AsyncGenerator<StreamBatch, void> {
    let rest = this.#disk.events.filter(({ seq }) => seq > cursor)
    while (rest.length > 0) {
      await this.#step()
      const events = rest.slice(0, 1 + this.#draw(6))
      rest = rest.slice(events.length)
      yield { events, gaps: [], cursor: events.at(-1)?.seq ?? 0, live: false }
    }
  }

  #store(): RunnerStore {
    const disk = this.#disk
    const written = async (change: () => void): Promise<void> => {
      await this.#step()
      change()
      disk.assertNothingLost()
      await this.#step()
    }
    return {
      load: async () => disk.cursor,
      save: async (cursor) =>
        await written(() => {
          assert.ok(cursor >= (disk.cursor ?? 0), 'the cursor goes back')
          disk.cursor = cursor
        }),
      parked: async () => inSeqOrder(disk.parked.values()),
      park: async (parked) => await written(() => void disk.parked.set(parked.event.seq, parked)),
      unpark: async (seq) => await written(() => void disk.parked.delete(seq)),
    }
  }
}

/** Some of the records that are written. */
function isInvalid(event: ClientEvent): boolean {
  return event.kind === 'commit' && event.operation !== 'delete' && event.seq % 9 === 0
}

function recordOf(event: ClientEvent): string {
  if (event.kind === 'identity') return `identity of ${event.did}`
  return event.kind === 'commit' ? `${event.did}/${event.rkey}` : event.did
}

/** Puts and deletes set and remove a record; an event of an account removes all of its records, and no identity. */
function applyTo(state: Map<string, number>, event: ClientEvent): void {
  if (event.kind === 'identity') state.set(recordOf(event), event.seq)
  else if (event.kind !== 'commit') {
    for (const record of state.keys()) if (record.startsWith(event.did)) state.delete(record)
  } else if (event.operation === 'delete') state.delete(recordOf(event))
  else state.set(recordOf(event), event.seq)
}

function randomEvents(draw: Draw): ClientEvent[] {
  let seq = 0
  return Array.from({ length: 20 + draw(40) }, (): ClientEvent => {
    seq += 1 + draw(3)
    const did = `did:plc:${'abc'.charAt(draw(3)).repeat(24)}` as Did // has the form of one
    const envelope = { seq, did, time: '2026-01-01T00:00:00.000000Z' }
    if (draw(8) === 0) {
      return { kind: 'identity', ...envelope, identity: { did, seq, time: envelope.time } }
    }
    if (draw(12) === 0) {
      return { kind: 'account', ...envelope, account: { active: false, did, seq, time: envelope.time } }
    }
    const place = { collection: 'org.impact.claim.activity' as Nsid, rkey: `r${draw(3)}` as RecordKey } // both are
    const commit = { kind: 'commit', ...envelope, ...place, rev: '3migo7fijwi2k' } as const
    if (draw(4) === 0) return { ...commit, operation: 'delete' }
    return { ...commit, operation: 'create', cid: 'bafyrei', record: { seq } }
  })
}

test('over a thousand kills at any point, the stored cursor never passes what is not handled or parked', async () => {
  let kills = 0
  const cases = 220
  await fc.assert(
    fc.asyncProperty(fc.infiniteStream(fc.nat()), async (numbers) => {
      const draw: Draw = (below) => (numbers.next().value ?? 0) % below
      const disk = new Disk(randomEvents(draw))
      const order = draw(2) === 0 ? 'record' : 'account'
      const poison = new Set(disk.events.map(({ seq }) => seq).filter(() => draw(15) === 0))
      for (let lives = 7; lives > 0; lives--) {
        const end = await new Process(disk, draw, poison, 1 + draw(70)).run(order)
        disk.assertNothingLost()
        if (end === 'killed') kills++
      }
      // Somebody repairs the handlers. What was parked is tried again at the start of each run.
      for (let runs = 0; runs < 50 && (runs === 0 || disk.parked.size > 0); runs++)
        assert.equal(await new Process(disk, draw, new Set(), Infinity).run(order), 'done')
      const expected = new Map<string, number>()
      for (const event of disk.events) if (!isInvalid(event)) applyTo(expected, event)
      assert.deepEqual(disk.state, expected)
      assert.deepEqual(disk.parked.size, 0)
      assert.equal(disk.cursor, disk.events.at(-1)?.seq)
    }),
    { numRuns: cases },
  )
  assert.ok(kills > 1000, `${kills} kills`)
})
