/**
 * Scripts of the simulator that always are played: some of the first seeds, those by which it found a fault, and those
 * that show a fault which is planted (`mutants.json`). The campaign plays 1,600 others in every run, and as many new ones as
 * are wanted: `npm run campaign -- simulator`.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptOf, type Script, type Step } from './script.ts'
import { play } from './simulation.ts'

const seeds = 8

test(`seeds 1 to ${seeds} break no promise`, async () => {
  for (let seed = 1; seed <= seeds; seed++)
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})

const scenesFrom = 2_000_000

test(`seeds ${scenesFrom} to ${scenesFrom + seeds - 1}, which play scenes, break no promise`, async () => {
  for (let seed = scenesFrom; seed < scenesFrom + seeds; seed++)
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})

test('seeds that show planted faults break no promise without them', async () => {
  for (const seed of [10, 38, 75, 86, 89, 149, 157, 234])
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})

test('a seed is the same run each time', async () => {
  const [first, second] = [await play(scriptOf(17)), await play(scriptOf(17))]
  assert.ok(first.trace.length > 100)
  assert.deepEqual(first.trace, second.trace)
})

const small: Omit<Script, 'steps'> = { seed: 1, hosts: 2, accounts: 3, identityWaitMs: 15_000 }

const mended: Record<string, Step[]> = {
  'accounts whose documents could not be read before a restart are asked for after it': [
    { do: 'condition', part: 'directory', of: undefined, manner: 'silent', forMs: 40_000 },
    { do: 'wait', ms: 20_000 },
    { do: 'restart', how: 'stop', afterCalls: undefined, downMs: 0 },
  ],
  'commits that were signed before a key changed are made up for': [{ do: 'rotate', account: 0, gapMs: 0 }],
  'a takedown that was decided just before a kill holds after it': [
    { do: 'condition', part: 'disk', of: undefined, manner: 'stuck', forMs: 10_000 },
    { do: 'wait', ms: 3000 },
    { do: 'exclude', account: 0, status: 'takendown' },
    { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
  ],
}

for (const [name, steps] of Object.entries(mended))
  test(name, async () => {
    assert.deepEqual((await play({ ...small, steps })).broken, [])
  })

test('an answer that two events have overtaken is not believed', async () =>
  assert.deepEqual((await play(scriptOf(2_006_004))).broken, []))

test('a commit that was left out during a ban is made up for', async () => {
  const steps: Step[] = [
    { do: 'wait', ms: 3000 },
    { do: 'condition', part: 'threads', of: undefined, manner: 'slow', forMs: 12_000 },
    { do: 'spoil', account: 2, draw: 1_103_108_296, how: 'flag' },
    { do: 'wait', ms: 1500 },
    { do: 'commit', account: 2, draw: 948_316_385, times: 1 },
    { do: 'wait', ms: 18 },
    { do: 'ban', source: 0, forMs: 500 },
    { do: 'straggle', account: 2, draw: 155_925_567, kind: 'sync' },
  ]
  const script = { ...small, identityWaitMs: 60_000, relayed: 1, isLate: true, steps }
  for (let seed = 1; seed <= 12; seed++)
    assert.deepEqual((await play({ ...script, seed })).broken, [], `seed ${seed}`)
})

const killed: Step = { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 }

/** The first events of an account wait for its document. Its newest one is left out, because too much waits. */
function leftOutBehind(forMs: number): Step[] {
  return [
    { do: 'flood', host: 0, how: 'documents', count: 20, forMs: 150_000, draw: 202_386_724 },
    { do: 'spoil', account: 0, draw: 1_103_978_092, how: 'tree' },
    { do: 'condition', part: 'directory', of: 0, manner: 'failing', forMs },
    { do: 'wait', ms: 9000 },
    // With this, the state is stored.
    { do: 'commit', account: 2, draw: 5, times: 1 },
  ]
}

const found: Record<string, Script> = {
  'an account without a slot whose change of status was left out is known to be inactive after some time': {
    seed: 10_912,
    hosts: 3,
    accounts: 8,
    identityWaitMs: 60_000,
    quota: 1,
    steps: [
      { do: 'wait', ms: 285 },
      { do: 'wait', ms: 48 },
      { do: 'wait', ms: 40 },
      { do: 'status', account: 3, word: 'deactivated' },
      { do: 'condition', part: 'directory', of: 3, manner: 'missing', forMs: 40_000 },
      { do: 'wait', ms: 27 },
    ],
  },
  'an account that moved from behind a relay is found, though its new host gives no good answer for long': {
    seed: 3_033_552,
    hosts: 3,
    accounts: 6,
    identityWaitMs: 15_000,
    relayed: 1,
    steps: [
      { do: 'condition', part: 'answers', of: undefined, manner: 'garbled', forMs: 40_000 },
      { do: 'wait', ms: 839 },
      { do: 'move', account: 2, draw: 178_451_370, to: 0, order: 2, gapMs: 3000 },
    ],
  },
  'an account that was active again while it was left out here is found to be, once it is let in': {
    seed: 3_035_929,
    hosts: 3,
    accounts: 4,
    identityWaitMs: 15_000,
    retention: { keepMs: 31_000, fileBytes: 8000 },
    steps: [
      { do: 'wait', ms: 1960 },
      { do: 'exclude', account: 5, status: 'suspended' },
      { do: 'move', account: 1, draw: 492_147_071, to: 0, order: 3, gapMs: 200 },
      { do: 'restart', how: 'kill', afterCalls: 2, downMs: 90_000 },
      { do: 'wait', ms: 2000 },
      { do: 'wait', ms: 2000 },
      { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
      { do: 'exclude', account: 5, status: undefined },
    ],
  },
  'an account that nothing passed of is asked for again after a stop in the middle of a question': {
    seed: 2,
    hosts: 2,
    accounts: 3,
    identityWaitMs: 15_000,
    relayed: 2,
    steps: [
      { do: 'condition', part: 'directory', of: undefined, manner: 'silent', forMs: 40_000 },
      { do: 'status', account: 6, word: 'takendown' },
      { do: 'wait', ms: 65_740 },
      { do: 'identity', account: 3 },
      { do: 'restart', how: 'power', afterCalls: 2, downMs: 0 },
      { do: 'crowd', count: 24, draw: 1_854_146_793 },
      { do: 'wait', ms: 53 },
      { do: 'restart', how: 'stop', afterCalls: 1, downMs: 0 },
    ],
  },
  'an account is asked for while the directory fails for another one': {
    seed: 492_123_573,
    hosts: 2,
    accounts: 4,
    identityWaitMs: 600_000,
    steps: [
      { do: 'condition', part: 'directory', of: 4, manner: 'failing', forMs: 100_000 },
      { do: 'commit', account: 2, draw: 292_354_848, times: 5 },
      { do: 'wait', ms: 61_382 },
      { do: 'identity', account: 6 },
      { do: 'wait', ms: 26_316 },
    ],
  },
  'the old host of an account is not believed for long, when a directory named it once more': {
    seed: 9164,
    hosts: 3,
    accounts: 6,
    identityWaitMs: 15_000,
    steps: [
      { do: 'move', account: 1, draw: 251_732_172, to: 2, order: 3, gapMs: 0 },
      { do: 'wait', ms: 68_534 },
      { do: 'condition', part: 'directory', of: undefined, manner: 'older', forMs: 10_000 },
      { do: 'spoil', account: 7, draw: 1_504_922_925, how: 'flag' },
      { do: 'wait', ms: 60_000 },
    ],
  },
  'the old host of an account is not believed for ever, when a directory names it for a while': {
    seed: 375_550_235,
    hosts: 2,
    accounts: 6,
    identityWaitMs: 15_000,
    steps: [
      { do: 'move', account: 2, draw: 954_404_131, to: 3, order: 4, gapMs: 0 },
      { do: 'wait', ms: 1457 },
      { do: 'condition', part: 'directory', of: undefined, manner: 'older', forMs: 100_000 },
      { do: 'wait', ms: 68_516 },
    ],
  },
  'a commit is made up for that was left out while the host was asked about the one before': {
    seed: 375_547_914,
    hosts: 4,
    accounts: 5,
    identityWaitMs: 60_000,
    steps: [
      { do: 'wait', ms: 2000 },
      { do: 'spoil', account: 1, draw: 1_785_099_444, how: 'flag' },
      { do: 'wait', ms: 36 },
      { do: 'spoil', account: 1, draw: 1_322_296_192, how: 'flag' },
      { do: 'rotate', account: 7, gapMs: 1500 },
      { do: 'wait', ms: 1846 },
      { do: 'commit', account: 6, draw: 1_207_178_123, times: 1 },
    ],
  },
  'a commit is made up for that was left out while an answer was held, though the directory is wrong for long':
    {
      seed: 217_529_172,
      hosts: 2,
      accounts: 4,
      identityWaitMs: 15_000,
      steps: [
        { do: 'wait', ms: 33_339 },
        { do: 'condition', part: 'directory', of: 5, manner: 'older', forMs: 100_000 },
        { do: 'exclude', account: 5, status: 'takendown' },
        { do: 'commit', account: 5, times: 2, draw: 1_407_763_235 },
        { do: 'wait', ms: 2000 },
        { do: 'exclude', account: 5, status: undefined },
        { do: 'rotate', account: 1, gapMs: 1500 },
        { do: 'wait', ms: 4717 },
      ],
    },
  'a takedown of which the log knows nothing is lifted with all that was left out by it': {
    seed: 432_862_624,
    hosts: 2,
    accounts: 4,
    identityWaitMs: 600_000,
    steps: [
      { do: 'condition', part: 'threads', of: undefined, manner: 'forgetful', forMs: 40_000 },
      { do: 'move', account: 5, draw: 241_859_131, to: 0, order: 2, gapMs: 5 },
      { do: 'move', account: 7, draw: 66_697_405, to: 2, order: 1, gapMs: 0 },
      { do: 'commit', account: 1, draw: 273_423_502, times: 7 },
      { do: 'condition', part: 'disk', of: undefined, manner: 'stuck', forMs: 10_000 },
      { do: 'wait', ms: 4161 },
      { do: 'exclude', account: 1, status: 'takendown' },
      { do: 'wait', ms: 2000 },
      { do: 'commit', account: 1, times: 2, draw: 2_007_210_578 },
      { do: 'wait', ms: 2000 },
      { do: 'exclude', account: 1, status: undefined },
      { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
      { do: 'condition', part: 'answers', of: undefined, manner: 'garbled', forMs: 10_000 },
      { do: 'wait', ms: 51_623 },
    ],
  },
  'an account that its old host calls deactivated is asked for at its new one after a kill': {
    seed: 432_865_668,
    hosts: 2,
    accounts: 5,
    identityWaitMs: 60_000,
    steps: [
      { do: 'wait', ms: 2057 },
      { do: 'move', account: 4, draw: 232_106_640, to: 3, order: 3, gapMs: 200 },
      { do: 'flood', host: 3, how: 'answers', count: 20, forMs: 150_000, draw: 1_053_424_600 },
      { do: 'wait', ms: 60_000 },
      { do: 'move', account: 6, draw: 1_882_998_042, to: 2, order: 4, gapMs: 3000 },
      { do: 'restart', how: 'kill', afterCalls: 2, downMs: 100 },
    ],
  },
  'an account is made whole soon, though its host flooded a relay that was down with accounts whose documents hang':
    {
      seed: 605_562,
      hosts: 3,
      accounts: 6,
      identityWaitMs: 15_000,
      retention: { keepMs: 60_000, fileBytes: 8000 },
      steps: [
        { do: 'wait', ms: 266 },
        { do: 'flood', host: 1, how: 'documents', count: 40, forMs: 40_000, draw: 331_677_608 },
        { do: 'restart', how: 'kill', afterCalls: 2, downMs: 90_000 },
        { do: 'wait', ms: 42_597 },
        { do: 'spoil', account: 1, draw: 1_750_323_259, how: 'flag' },
        { do: 'wait', ms: 60_000 },
      ],
    },
  'an account that left a PDS that is read is heard by another relay, though its document was not read again':
    {
      ...small,
      relayed: 1,
      steps: [
        { do: 'wait', ms: 2000 },
        // Its host uses up the readings of its document.
        ...Array.from({ length: 11 }, (): Step => ({ do: 'identity', account: 0 })),
        { do: 'wait', ms: 2000 },
        { do: 'move', account: 0, to: 1, order: 2, gapMs: 200, draw: 1 },
        { do: 'wait', ms: 1000 },
      ],
    },
  'a new host is believed in the end that an account is deleted': {
    seed: 375_549_676,
    hosts: 2,
    accounts: 3,
    identityWaitMs: 600_000,
    steps: [
      { do: 'wait', ms: 32_925 },
      { do: 'flood', host: 3, how: 'documents', count: 20, forMs: 40_000, draw: 1_657_961_053 },
      { do: 'condition', part: 'directory', of: 7, manner: 'missing', forMs: 40_000 },
      { do: 'move', account: 1, draw: 1_407_421_232, to: 0, order: 3, gapMs: 0 },
      { do: 'status', account: 4, word: 'deleted' },
      { do: 'restart', how: 'kill', afterCalls: 3, downMs: 0 },
    ],
  },
  'what another relay named while no document could be read is made up for after a kill': {
    seed: 638_903_068,
    hosts: 3,
    accounts: 5,
    identityWaitMs: 15_000,
    relayed: 3,
    steps: [
      { do: 'condition', part: 'directory', of: undefined, manner: 'failing', forMs: 100_000 },
      { do: 'wait', ms: 37_828 },
      { do: 'restart', how: 'kill', afterCalls: 3, downMs: 90_000 },
    ],
  },
  'an account without a slot that moves while the directory does not know it is found at its new host': {
    seed: 254_725_646,
    hosts: 2,
    accounts: 7,
    identityWaitMs: 600_000,
    quota: 1,
    steps: [
      { do: 'move', account: 1, draw: 915_729_464, to: 2, order: 5, gapMs: 3000 },
      { do: 'condition', part: 'directory', of: undefined, manner: 'missing', forMs: 100_000 },
      { do: 'move', account: 4, draw: 179_672_034, to: 3, order: 0, gapMs: 200 },
    ],
  },
  'the relay that brings an account has its changes at once, however many they are': {
    seed: 83_643_141,
    hosts: 2,
    accounts: 3,
    identityWaitMs: 600_000,
    relayed: 2,
    steps: [
      { do: 'condition', part: 'threads', of: undefined, manner: 'forgetful', forMs: 2000 },
      { do: 'status', account: 4, word: 'suspended' },
      { do: 'wait', ms: 2326 },
      { do: 'lie', account: 0, draw: 918_480_895, victim: 7, name: 'account of another' },
      { do: 'commit', account: 0, draw: 832_078_292, times: 4 },
      { do: 'identity', account: 1 },
      { do: 'restart', how: 'kill', afterCalls: 2, downMs: 90_000 },
      { do: 'wait', ms: 2491 },
      { do: 'status', account: 4, word: 'deactivated' },
    ],
  },
  'an account that has left a PDS for a host behind another relay is asked for there, though the directory was away':
    {
      seed: 380_435_677,
      hosts: 3,
      accounts: 5,
      identityWaitMs: 15_000,
      relayed: 2,
      steps: [
        { do: 'wait', ms: 64_766 },
        { do: 'move', account: 5, draw: 1_480_238_142, to: 1, order: 2, gapMs: 5 },
        { do: 'status', account: 5, word: 'deactivated' },
        { do: 'condition', part: 'directory', of: undefined, manner: 'silent', forMs: 2000 },
        { do: 'wait', ms: 4374 },
      ],
    },
  'the word of another relay is made up for that was left out while a directory named the old host once more':
    {
      seed: 380_435_869,
      hosts: 4,
      accounts: 6,
      identityWaitMs: 15_000,
      relayed: 2,
      steps: [
        { do: 'move', account: 5, draw: 416_536_700, to: 2, order: 4, gapMs: 200 },
        { do: 'wait', ms: 32_700 },
        { do: 'condition', part: 'directory', of: 5, manner: 'older', forMs: 2000 },
        { do: 'status', account: 5, word: 'deactivated' },
        { do: 'wait', ms: 3092 },
      ],
    },
  'a status that another relay brings is asked for again, when the old host of the account did not confirm it':
    {
      seed: 2_018_588,
      hosts: 4,
      accounts: 5,
      identityWaitMs: 600_000,
      retention: { keepMs: 31_000, fileBytes: 8000 },
      relayed: 4,
      steps: [
        { do: 'move', account: 4, draw: 801_305_658, to: 1, order: 4, gapMs: 5 },
        { do: 'wait', ms: 3367 },
        { do: 'condition', part: 'directory', of: 4, manner: 'older', forMs: 200 },
        { do: 'status', account: 4, word: 'takendown' },
        { do: 'wait', ms: 3130 },
      ],
    },
  'an account that another relay brought before its old host said that it left is looked for again': {
    seed: 6_101_292,
    hosts: 2,
    accounts: 3,
    identityWaitMs: 600_000,
    relayed: 1,
    steps: [
      { do: 'move', account: 6, draw: 1_200_374_414, to: 1, order: 1, gapMs: 0 },
      { do: 'condition', part: 'directory', of: 3, manner: 'older', forMs: 100_000 },
      { do: 'status', account: 3, word: 'suspended' },
      { do: 'wait', ms: 1468 },
    ],
  },
  'the log keeps what the state would not have after a power cut': {
    seed: 3_034_735,
    hosts: 4,
    accounts: 6,
    identityWaitMs: 15_000,
    retention: { keepMs: 31_000, fileBytes: 8000 },
    relayed: 3,
    steps: [
      { do: 'commit', account: 0, draw: 1_926_463_378, times: 5 },
      { do: 'commit', account: 3, draw: 2_085_370_128, times: 1 },
      { do: 'identity', account: 0 },
      { do: 'condition', part: 'disk', of: undefined, manner: 'stuck', forMs: 100_000 },
      { do: 'restart', how: 'stop', afterCalls: 1, downMs: 3000 },
      { do: 'restart', how: 'kill', afterCalls: 2, downMs: 3000 },
      { do: 'commit', account: 7, draw: 529_463_227, times: 3 },
      { do: 'wait', ms: 4965 },
      { do: 'rotate', account: 7, gapMs: 1500 },
      { do: 'wait', ms: 303 },
      { do: 'condition', part: 'link', of: 2, manner: 'jumpy', forMs: 100_000 },
      { do: 'commit', account: 4, draw: 1_923_708_269, times: 4 },
      { do: 'commit', account: 5, draw: 1_988_731_760, times: 1 },
      { do: 'move', account: 7, draw: 685_556_654, to: 3, order: 3, gapMs: 0 },
      { do: 'commit', account: 0, draw: 1_287_607_467, times: 1 },
      { do: 'commit', account: 7, draw: 2_095_615_432, times: 1 },
      { do: 'wait', ms: 2944 },
      { do: 'exclude', account: 0, status: 'suspended' },
      { do: 'restart', how: 'kill', afterCalls: 3, downMs: 3000 },
      { do: 'exclude', account: 3, status: 'suspended' },
      { do: 'restart', how: 'power', afterCalls: 2, downMs: 3000 },
    ],
  },
  // What no relay can know is made up for by the world: the account writes once more.
  'a last commit of a former host, by a directory that was wrong until just now, ends with the next one of the new host':
    {
      seed: 2_024_629,
      hosts: 4,
      accounts: 6,
      identityWaitMs: 15_000,
      retention: { keepMs: 31_000, fileBytes: 8000 },
      steps: [
        { do: 'move', account: 0, draw: 1_652_401_898, to: 3, order: 3, gapMs: 0 },
        { do: 'wait', ms: 60_000 },
        { do: 'condition', part: 'directory', of: undefined, manner: 'older', forMs: 40_000 },
        { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 100 },
        { do: 'condition', part: 'answers', of: undefined, manner: 'failing', forMs: 40_000 },
        { do: 'wait', ms: 15_086 },
        { do: 'commit', account: 6, draw: 2_145_284_599, times: 1 },
        { do: 'straggle', account: 6, draw: 1_751_864_847, kind: 'commit' },
      ],
    },
  'an account stays marked by a #sync that came before what was left out, and comes again after a kill': {
    ...small,
    seed: 6,
    identityWaitMs: 600_000,
    steps: [...leftOutBehind(20_000), { do: 'wait', ms: 7222 }, killed, { do: 'wait', ms: 4386 }, killed],
  },
}

for (const [name, script] of Object.entries(found))
  test(name, async () => {
    assert.deepEqual((await play(script)).broken, [])
  })

test('an account stays marked by a #sync that came before what was left out, and waited longer', async () => {
  for (let ms = 2600; ms <= 5000; ms += 400) {
    const steps: Step[] = [...leftOutBehind(10_000), { do: 'wait', ms }, killed]
    assert.deepEqual(
      (await play({ ...small, identityWaitMs: 600_000, steps })).broken,
      [],
      `a kill after ${ms} ms`,
    )
  }
})

test('a consumer that takes one message after the other is not ended for taking nothing, though all are of one length', async () => {
  const steps: Step[] = [
    { do: 'wait', ms: 2000 },
    { do: 'join', consumer: 3, cursor: 'own', framing: 'json', pace: 'crawling' },
    { do: 'flood', host: 3, how: 'answers', count: 20, forMs: 150_000, draw: 245_804_696 },
    { do: 'wait', ms: 60_000 },
  ]
  const retention = { keepMs: 60_000, fileBytes: 8000 }
  const script = { hosts: 3, accounts: 4, identityWaitMs: 15_000, retention, steps }
  for (let seed = 100; seed < 104; seed++)
    assert.deepEqual((await play({ ...script, seed })).broken, [], `seed ${seed}`)
})
