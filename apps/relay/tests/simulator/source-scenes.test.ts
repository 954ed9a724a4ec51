/** Scripts by which the simulator found faults once sources lost messages, were read anew, clocks were ahead and power went. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptOf, type Step } from './script.ts'
import { play } from './simulation.ts'

const scenesFrom = 3_000_000
const seeds = 4

test(`seeds ${scenesFrom} to ${scenesFrom + seeds - 1}, in which sources lose messages, break no promise`, async () => {
  for (let seed = scenesFrom; seed < scenesFrom + seeds; seed++)
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})

const pass = (ms: number): Step => ({ do: 'wait', ms })
const killed: Step = { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 100 }
const silentFor = (forMs: number, of?: number): Step => {
  return { do: 'condition', part: 'directory', of, manner: 'silent', forMs }
}
const ahead = (forMs: number): Step => ({ do: 'clock', aheadMs: 30 * 86_400_000, forMs })

/** Accounts 0 and 2 are at the first host. */
function lost(account: number): Step[] {
  return [
    { do: 'condition', part: 'link', of: 0, manner: 'down', forMs: 1000 },
    { do: 'commit', account, times: 1, draw: 1 },
    { do: 'forget', source: 0, kept: 0 },
  ]
}

const found: Record<string, Step[]> = {
  'what a source sent between two connections is made up for when it is read from now on': [
    pass(5000),
    { do: 'again', source: 0, from: 'live', draw: 0 },
    pass(60_000),
    ...lost(0),
    pass(500),
  ],
  'what a source lost is made up for though its cursor has passed nothing before a kill': [
    silentFor(60_000, 0),
    pass(3000),
    ...lost(2),
    killed,
  ],
  'an event that waits when the clock is set back does not wait until the clock is there again': [
    pass(5000),
    silentFor(1000),
    ahead(3000),
    { do: 'status', account: 0, word: 'deactivated' },
    pass(4000),
  ],
  'an account is made whole soon though the clock is set right just after a start': [
    pass(5000),
    { do: 'condition', part: 'answers', of: undefined, manner: 'failing', forMs: 60_000 },
    { do: 'spoil', account: 0, how: 'flag', draw: 1 },
    pass(20_000),
    ahead(300),
    killed,
    pass(9000),
  ],
  'what a source lost is made up for though the host of an account gives no commit at first': [
    pass(5000),
    { do: 'condition', part: 'directory', of: undefined, manner: 'silent', forMs: 60_000 },
    { do: 'rotate', account: 0, gapMs: 1500 },
    ...lost(0),
    pass(20_000),
  ],
  'what a source lost is made up for though its last message came at a date to come': [
    pass(5000),
    ahead(6000),
    ...lost(0),
    pass(2500),
    { do: 'identity', account: 0 },
    pass(1000),
  ],
}

for (const [name, steps] of Object.entries(found))
  test(name, async () => {
    const script = { seed: 1, hosts: 2, accounts: 3, identityWaitMs: 600_000, isLate: true, steps }
    assert.deepEqual((await play(script)).broken, [])
  })

test('an account that was deleted and is back before that is stored is listed with nothing of before', async () => {
  const steps: Step[] = [
    { do: 'commit', account: 0, draw: 1, times: 3 },
    pass(8000),
    { do: 'status', account: 0, word: 'deleted' },
    pass(300),
    { do: 'status', account: 0, word: 'active' },
  ]
  assert.deepEqual((await play({ seed: 1, hosts: 2, accounts: 3, identityWaitMs: 15_000, steps })).broken, [])
})

test('a new account is not forgotten that a relay brought just before it was banned for a while', async () => {
  const steps: Step[] = [
    pass(3000),
    { do: 'condition', part: 'threads', of: undefined, manner: 'slow', forMs: 2000 },
    { do: 'newcomer' },
    pass(5),
    { do: 'ban', source: 0, forMs: 4000 },
  ]
  const script = { hosts: 2, relayed: 2, accounts: 2, identityWaitMs: 600_000, isLate: true, steps }
  for (let seed = 1; seed <= 13; seed++)
    assert.deepEqual((await play({ seed, ...script })).broken, [], `seed ${seed}`)
})

test('a suspended account that moved behind a relay is asked for there, though the directory named its old host for a while', async () => {
  const steps: Step[] = [
    { do: 'move', account: 6, draw: 1_380_275_959, to: 3, order: 2, gapMs: 200 },
    { do: 'status', account: 6, word: 'suspended' },
    pass(3871),
    { do: 'restart', how: 'kill', afterCalls: 3, downMs: 100 },
    pass(3103),
    { do: 'condition', part: 'directory', of: 1, manner: 'older', forMs: 2000 },
    pass(3261),
  ]
  const sizes = { hosts: 4, relayed: 2, accounts: 5, retention: { keepMs: 31_000, fileBytes: 8000 } }
  const script = { seed: 3_002_887, ...sizes, identityWaitMs: 600_000, isLate: true, steps }
  assert.deepEqual((await play(script)).broken, [])
})

test('a new account comes in after a ban of its host, though a relay named it last', async () => {
  const steps: Step[] = [
    { do: 'condition', part: 'directory', of: undefined, manner: 'failing', forMs: 20_000 },
    pass(22_432),
    { do: 'ban', source: 0, forMs: 20_000 },
  ]
  const script = {
    seed: 3_006_662,
    hosts: 4,
    relayed: 2,
    accounts: 8,
    identityWaitMs: 15_000,
    isLate: true,
    steps,
  }
  assert.deepEqual((await play(script)).broken, [])
})

test('accounts of a PDS whose documents come late do not wait for a banned relay that named them, too', async () => {
  // The relay is refused first, a PDS is, and a relay is refused between two PDSs and banned later.
  const relayFirst = { sizes: { seed: 3_016_098, hosts: 3, accounts: 3, relayed: 1 }, waitMs: 7149 }
  const pdsFirst = { sizes: { seed: 3_016_302, hosts: 3, accounts: 6, relayed: 1 }, waitMs: 14_686 }
  const between = { sizes: { seed: 3_017_827, hosts: 4, accounts: 4, relayed: 2, quota: 3 }, waitMs: 24_523 }
  for (const { sizes, waitMs } of [relayFirst, pdsFirst, between]) {
    const steps: Step[] = [
      { do: 'condition', part: 'directory', of: undefined, manner: 'silent', forMs: 20_000 },
      pass(waitMs),
      { do: 'ban', source: 2, forMs: 20_000 },
    ]
    const script = { ...sizes, identityWaitMs: 15_000, isLate: true, steps }
    assert.deepEqual((await play(script)).broken, [])
  }
})

test('an answer that comes after its host was banned makes no account active', async () => {
  const steps: Step[] = [
    { do: 'move', account: 2, draw: 78_553_017, to: 1, order: 5, gapMs: 5 },
    pass(348),
    { do: 'condition', part: 'answers', of: undefined, manner: 'late', forMs: 5000 },
    { do: 'move', account: 2, draw: 485_410_829, to: 0, order: 5, gapMs: 200 },
    { do: 'fork', account: 2, draw: 237_411_667 },
    pass(778),
    { do: 'ban', source: 0, forMs: 20_000 },
  ]
  const script = {
    seed: 3_015_906,
    hosts: 2,
    accounts: 7,
    quota: 3,
    identityWaitMs: 600_000,
    isLate: true,
    steps,
  }
  assert.deepEqual((await play(script)).broken, [])
})

test('a commit that was lost is made up for, though its source is paused just when the host has told of it', async () => {
  const steps: Step[] = [
    pass(2000),
    { do: 'fork', account: 0, draw: 998_393_887 },
    pass(8),
    { do: 'again', source: 0, from: 'live', draw: 1_575_028_885 },
    pass(62_080),
    { do: 'restart', how: 'stop', afterCalls: 2, downMs: 100 },
    { do: 'commit', account: 6, draw: 1_341_785_801, times: 3 },
    pass(1430),
    { do: 'condition', part: 'answers', of: undefined, manner: 'silent', forMs: 20_000 },
    pass(25_310),
    { do: 'pause', source: 0, forMs: 8000 },
  ]
  const retention = { keepMs: 31_000, fileBytes: 8000 }
  const script = {
    seed: 3_028_005,
    hosts: 2,
    accounts: 8,
    retention,
    identityWaitMs: 15_000,
    isLate: true,
    steps,
  }
  assert.deepEqual((await play(script)).broken, [])
})

test('the state that a power cut leaves does not know of an account what the log has lost', async () => {
  const steps: Step[] = [
    { do: 'wait', ms: 351 },
    { do: 'condition', part: 'disk', of: undefined, manner: 'slow', forMs: 100_000 },
    { do: 'commit', account: 5, draw: 964_180_814, times: 2 },
    { do: 'wait', ms: 30_977 },
    { do: 'recheck', account: 6 },
    { do: 'condition', part: 'disk', of: undefined, manner: 'stuck', forMs: 40_000 },
    { do: 'exclude', account: 5, status: 'suspended' },
    { do: 'wait', ms: 318 },
    { do: 'exclude', account: 3, status: 'takendown' },
    { do: 'wait', ms: 2000 },
    { do: 'commit', account: 3, times: 2, draw: 1_299_961_780 },
    { do: 'wait', ms: 2000 },
    { do: 'join', consumer: 1, cursor: 'back', framing: 'v0', pace: 'fast' },
    { do: 'exclude', account: 3, status: undefined },
    { do: 'rotate', account: 5, gapMs: 0 },
    { do: 'move', account: 7, draw: 180_756_462, to: 3, order: 4, gapMs: 3000 },
    { do: 'commit', account: 4, draw: 1_455_218_755, times: 1 },
  ]
  const script = { hosts: 4, accounts: 5, identityWaitMs: 600_000 }
  for (const [seed, afterCalls] of [
    [1, 1],
    [2, 2],
    [9, 3],
  ] as const) {
    const cut: Step = { do: 'restart', how: 'power', afterCalls, downMs: 100 }
    assert.deepEqual((await play({ ...script, seed, steps: [...steps, cut] })).broken, [], `seed ${seed}`)
  }
})
