/**
 * Scripts of the simulator that always are played. The campaign plays 200 others in every run, and as many new ones as are
 * wanted: `npm run campaign -- stream-simulator`.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptOf, type Script } from './script.ts'
import { play } from './simulation.ts'

const seeds = 4

test(`seeds 1 to ${seeds} break no promise`, async () => {
  for (let seed = 1; seed <= seeds; seed++)
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})

test('a seed is the same run each time', async () => {
  const [first, second] = [await play(scriptOf(18)), await play(scriptOf(18))]
  assert.ok(first.trace.length > 20)
  assert.deepEqual(first.trace, second.trace)
})

/** One account or two, of which everything is archived within a second. */
const smallWorld: Omit<Script, 'seed' | 'accounts' | 'steps'> = {
  bounds: { segmentBytes: 20_000, logFileBytes: 3000, blockAgeMs: 1000, tailBytes: 20_000, isTrusting: true },
  upkeep: { compactEveryMs: 0, compactBytesPerSecond: 2 ** 30, listedAfterMs: 0, quietAccounts: 0 },
}

for (const how of ['told', 'untold', 'stolen'] as const)
  test(`a former key signs nothing any more, and the present one does, when the change of it is ${how}`, async () => {
    const bounds = { ...smallWorld.bounds, isTrusting: false }
    const steps: Script['steps'] = [
      { do: 'wait', ms: 5000 },
      { do: 'rotate', account: 0, gapMs: 50, how, draw: 1 },
      { do: 'forge', account: 1, draw: 2 },
    ]
    assert.deepEqual((await play({ ...smallWorld, seed: 1, accounts: 2, bounds, steps })).broken, [])
  })

test('events of an account keep their order though the threads that verify them forget its key', async () => {
  const bounds = { ...smallWorld.bounds, isTrusting: false }
  const steps: Script['steps'] = [
    { do: 'wait', ms: 5000 },
    { do: 'condition', part: 'threads', manner: 'forgetful', forMs: 40_000 },
    { do: 'commit', account: 0, draw: 7, times: 10 },
    { do: 'wait', ms: 3000 },
  ]
  for (let seed = 1; seed <= 6; seed++)
    assert.deepEqual(
      (await play({ ...smallWorld, seed, accounts: 2, bounds, steps })).broken,
      [],
      `seed ${seed}`,
    )
})

const found: Record<string, Script> = {
  'an account whose takedown was shown just before a kill is hidden after a stop, too': {
    seed: 1,
    accounts: 2,
    bounds: { segmentBytes: 2000, logFileBytes: 3000, blockAgeMs: 20, tailBytes: 3000, isTrusting: true },
    steps: [
      { do: 'commit', account: 0, times: 3, draw: 1 },
      { do: 'wait', ms: 3900 },
      { do: 'status', account: 0, word: 'takendown' },
      { do: 'wait', ms: 60 },
      { do: 'condition', part: 'link', manner: 'down', forMs: 40_000 },
      { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
      { do: 'restart', how: 'stop', afterCalls: undefined, downMs: 0 },
      { do: 'join', subscriber: 0, cursor: 'start', filter: 0, pace: 'fast' },
      { do: 'wait', ms: 5000 },
    ],
  },
  'an account whose takedown was archived before a kill stays hidden while its older events come again': {
    seed: 9044,
    accounts: 7,
    bounds: {
      segmentBytes: 20_000,
      logFileBytes: 3000,
      blockAgeMs: 30_000,
      tailBytes: 20_000,
      isTrusting: false,
    },
    steps: [
      { do: 'join', subscriber: 2, cursor: 'none', filter: 0, pace: 'fast' },
      { do: 'status', account: 3, word: 'takendown' },
      { do: 'wait', ms: 371 },
      { do: 'commit', account: 3, draw: 1_030_671_946, times: 1 },
      { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
      { do: 'restart', how: 'stop', afterCalls: undefined, downMs: 100 },
      { do: 'condition', part: 'directory', manner: 'silent', forMs: 2000 },
      { do: 'wait', ms: 2200 },
      { do: 'restart', how: 'power', afterCalls: undefined, downMs: 3000 },
    ],
  },
  'a sync that was shown before a kill is not written again after the repository of its revision': {
    seed: 7061,
    accounts: 5,
    bounds: {
      segmentBytes: 268_435_456,
      logFileBytes: 20_000,
      blockAgeMs: 1000,
      tailBytes: 3000,
      isTrusting: false,
      refillRows: 3,
    },
    upkeep: { compactEveryMs: 5000, compactBytesPerSecond: 2000, listedAfterMs: 0, quietAccounts: 0 },
    steps: [
      { do: 'commit', account: 4, draw: 320_840_186, times: 2 },
      { do: 'restart', how: 'power', afterCalls: 0, downMs: 0 },
      { do: 'wait', ms: 377 },
      { do: 'sync', account: 7 },
      { do: 'commit', account: 4, draw: 1_998_578_049, times: 3 },
      { do: 'wait', ms: 313 },
      { do: 'restart', how: 'kill', afterCalls: 2, downMs: 100 },
    ],
  },
  'a record that was changed while its repository was on its way is as the host has it, though its collection came then':
    {
      ...smallWorld,
      seed: 4,
      accounts: 2,
      steps: [
        { do: 'commit', account: 1, times: 6, draw: 9 },
        { do: 'wait', ms: 3000 },
        { do: 'condition', part: 'host', manner: 'late', forMs: 40_000 },
        { do: 'watch', collection: 0, isWatched: true },
        { do: 'wait', ms: 20_000, until: 'repo-asked' },
        { do: 'commit', account: 1, times: 4, draw: 6 },
        { do: 'wait', ms: 200 },
        { do: 'watch', collection: 1, isWatched: true },
      ],
    },
  'rows of a commit that comes again after a kill are not written twice, though another collection is watched now':
    {
      ...smallWorld,
      seed: 28,
      accounts: 1,
      steps: [
        { do: 'commit', account: 0, times: 1, draw: 28 },
        { do: 'wait', ms: 400 },
        { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
        { do: 'watch', collection: 0, isWatched: true },
      ],
    },
  'records of a collection that is removed and added again come again after a marker only': {
    ...smallWorld,
    seed: 1,
    accounts: 1,
    steps: [
      { do: 'wait', ms: 3000 },
      { do: 'watch', collection: 2, isWatched: false },
      { do: 'watch', collection: 2, isWatched: true },
    ],
  },
  'a record that was deleted while its collection was not watched is gone': {
    ...smallWorld,
    seed: 1,
    accounts: 1,
    steps: [
      { do: 'wait', ms: 3000 },
      { do: 'watch', collection: 2, isWatched: false },
      { do: 'commit', account: 0, times: 1, draw: 78 },
      { do: 'wait', ms: 1000 },
      { do: 'watch', collection: 2, isWatched: true },
    ],
  },
  'a record that live events brought before a kill is not written by the backfill of its collection that begins again':
    {
      ...smallWorld,
      bounds: { ...smallWorld.bounds, refillRows: 1 },
      seed: 2,
      accounts: 1,
      steps: [
        { do: 'commit', account: 0, times: 8, draw: 2 },
        { do: 'wait', ms: 3000 },
        { do: 'watch', collection: 0, isWatched: true },
        { do: 'commit', account: 0, times: 2, draw: 3 },
        { do: 'restart', at: 'refill-ends', how: 'kill', afterCalls: 2, downMs: 0 },
      ],
    },
  'a repository that is read while its collection is removed and added again is read once more': {
    ...smallWorld,
    seed: 1,
    accounts: 2,
    steps: [
      { do: 'commit', account: 1, times: 6, draw: 6 },
      { do: 'wait', ms: 3000 },
      { do: 'watch', collection: 0, isWatched: true },
      { do: 'wait', ms: 20_000, until: 'repo-asked' },
      { do: 'watch', collection: 0, isWatched: false },
      { do: 'watch', collection: 0, isWatched: true },
    ],
  },
  'a repository that is whole just before its collection is removed and added again is read once more': {
    seed: 792_828_318,
    accounts: 7,
    bounds: {
      ...smallWorld.bounds,
      blockAgeMs: 30_000,
      tailBytes: 2 ** 20,
      isTrusting: false,
      refillRows: 64,
    },
    upkeep: { compactEveryMs: 5000, compactBytesPerSecond: 2 ** 30, listedAfterMs: 30_000, quietAccounts: 0 },
    steps: [
      { do: 'wait', ms: 34_964 },
      { do: 'watch', collection: 1, isWatched: true },
      { do: 'restart', at: 'refill-ends', how: 'kill', afterCalls: 5, downMs: 0 },
      { do: 'watch', collection: 1, isWatched: false },
      { do: 'wait', ms: 391 },
      { do: 'watch', collection: 1, isWatched: true },
    ],
  },
  'a commit that comes again after a kill gives no row of an added collection behind rows of later commits': {
    ...smallWorld,
    seed: 8,
    accounts: 1,
    steps: [
      { do: 'commit', account: 0, times: 4, draw: 8 },
      { do: 'wait', ms: 400 },
      { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
      { do: 'watch', collection: 0, isWatched: true },
    ],
  },
  'a commit that comes again after a kill gives no row of an added collection when its account is hidden since':
    {
      ...smallWorld,
      seed: 1,
      accounts: 1,
      steps: [
        { do: 'commit', account: 0, times: 1, draw: 1 },
        { do: 'status', account: 0, word: 'takendown' },
        { do: 'wait', ms: 400 },
        { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
        { do: 'watch', collection: 0, isWatched: true },
      ],
    },
}

for (const [name, script] of Object.entries(found))
  test(name, async () => {
    assert.deepEqual((await play(script)).broken, [])
  })
