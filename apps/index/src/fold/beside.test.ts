/** Work of one author that touches many rows is done beside the events, and ends in the same rows. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IndexStorageError, type IndexWriter } from '@tributary/index-store'
import { feedCollections, type StreamEvent } from '@tributary/protocol'
import { before, changes, crowded, dump, policy, sized, source, splitting } from '../../tests/crowded.ts'
import { accountEvent, did, putEvent, Scenario, syncEvent, views } from '../../tests/scenario.ts'
import { Affected } from './affected.ts'
import { putBeside } from './beside.ts'
import { Fold } from './fold.ts'

const { activity, award, definition, response } = feedCollections
const toA = { $type: 'app.attested.defs#did', did: did('A') }
const besideRows = 20
const never = new AbortController().signal

/** An index whose fold does much of one author beside the events. */
function besideFold(world: Scenario, writer = world.connection): Fold {
  return new Fold(writer, policy, views, { besideRows })
}

async function doAll(fold: Fold): Promise<void> {
  while (await fold.workBeside(never));
}

/** The authors that have work, the one that has waited longest first. */
async function authorsOf(world: Scenario): Promise<string[]> {
  const rows = await world.rows('remakes')
  return rows.toSorted((a, b) => Number(a.place - b.place)).map((row) => row.did)
}

const large = Object.entries(changes).filter(
  ([name]) => !/read again|deleted|collection|answered/.test(name) || name.includes('its author goes'),
)

for (const [name, change] of large) {
  test(`${name}: what is done beside the events, killed at any cut, ends in the same rows`, async () => {
    await using once = await before(name)
    await once.fold.apply(source, [change(once)].flat(), 0)
    const expected = await dump(once.connection)
    let cuts = 0
    for (let killAt = 1, isKilled = true; isKilled; killAt++) {
      await using world = await before(name)
      const events = [change(world)].flat()
      isKilled = false
      const killed = splitting(world.connection, (times) => {
        isKilled = times === killAt
        if (isKilled) throw new IndexStorageError('killed')
      })
      const fold = besideFold(world, killed)
      await fold.apply(source, events, 0)
      assert.equal(isKilled, false, 'the event itself is not cut')
      assert.equal((await authorsOf(world)).length, 1)
      await doAll(fold).catch((error: unknown) => assert.ok(isKilled, String(error)))
      if (isKilled) cuts = killAt
      await doAll(besideFold(world))
      assert.deepEqual(await dump(world.connection), expected, `killed at cut ${killAt}`)
    }
    assert.ok(cuts > 0, `${cuts} cuts`)
  })
}

test('events are folded between the parts of such work, and what they change counts', async () => {
  await using world = await crowded()
  const fold = besideFold(world)
  await fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown')], 0)
  const working = fold.workBeside(never)
  const [ofAnother, ...ofItsOwn] = [
    putEvent(world.nextSeq(), world.now, 'A', activity, 'of-another', {}).event,
    accountEvent(world.nextSeq(), world.now, 'E', true),
    putEvent(world.nextSeq(), world.now, 'E', activity, 'of-its-own', {}).event,
  ] as const
  await fold.apply(source, [ofAnother], 0)
  assert.ok((await world.follows()).length > 0, 'it was folded before that work was done')
  for (const event of ofItsOwn) await fold.apply(source, [event], 0)
  assert.ok((await world.entries()).includes('cert.create of-another'))
  await working
  await doAll(fold)
  await using once = await crowded()
  await once.fold.apply(source, [ofAnother, ...ofItsOwn], 0)
  const shown = async (of: Scenario): Promise<unknown> => [
    new Set(await of.entries()),
    await of.follows(),
    await of.endorsements(),
  ]
  assert.deepEqual(await shown(world), await shown(once))
})

test('small awards of many long definitions are settled beside the events, and others at once', async () => {
  await using world = await Scenario.start()
  const fold = besideFold(world)
  const allowedIssuers = [did('E'), 'x'.repeat(300_000)]
  const badges: { uri: string; cid: string }[] = []
  for (let n = 0; n < 12; n++)
    badges.push(await world.put('B', definition, `long${n}`, { badgeType: 'endorsement', allowedIssuers }))
  badges.push(await world.put('Z', definition, 'short', { badgeType: 'endorsement' }))
  const awards = badges.map(
    (badge, n) => putEvent(world.nextSeq(), world.now, 'E', award, `of${n}`, { badge, subject: toA }).event,
  )
  await fold.apply(source, awards, 0)
  const entries = await world.entries()
  assert.ok(entries.includes('endorsement.award of12'))
  assert.ok(entries.length < 8, `${entries.length} were read`)
  assert.deepEqual(await authorsOf(world), [did('B')])
  await doAll(fold)
  assert.equal((await world.entries()).length, 13)
})

test('an account that comes and goes all the time holds up the work of no other', async () => {
  await using world = await crowded(200)
  let toggles = 0
  let togglesWhenDone = Infinity
  const fold: Fold = besideFold(
    world,
    splitting(world.connection, () => {
      if (toggles++ > 20) return
      const event = accountEvent(world.nextSeq(), world.now, 'E', toggles % 2 === 1)
      void fold.apply(source, [event], 0)
    }),
  )
  const away = [
    accountEvent(world.nextSeq(), world.now, 'E', false, 'deactivated'),
    putEvent(world.nextSeq(), world.now, 'B', definition, 'def', { badgeType: 'other' }).event,
  ]
  for (const event of away) await fold.apply(source, [event], 0)
  assert.deepEqual(await authorsOf(world), [did('E'), did('B')])
  while (await fold.workBeside(never))
    if (!(await authorsOf(world)).includes(did('B'))) togglesWhenDone = Math.min(togglesWhenDone, toggles)
  assert.ok(togglesWhenDone < 15, `${togglesWhenDone} times`)
  await fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'E', true)], 0)
  await doAll(fold)
  assert.equal((await world.follows()).length, 200)
})

test('an account that is read again while its work waits shows what was read', async () => {
  for (const isUnderWay of [false, true]) {
    await using world = await crowded()
    const fold = besideFold(world)
    await fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'E', false, 'deactivated')], 0)
    const working = isUnderWay ? fold.workBeside(never) : undefined
    await fold.apply(
      source,
      [
        syncEvent(world.nextSeq(), world.now, 'E'),
        putEvent(world.nextSeq(), world.now, 'E', activity, 'read', {}).event,
      ],
      0,
    )
    await working
    await doAll(fold)
    assert.deepEqual(await world.entries(), ['cert.create read'])
    assert.deepEqual(await world.follows(), [])
  }
})

test('what an author edits to and fro is noted once, however many badges it has', async () => {
  await using world = await crowded()
  const fold = besideFold(world)
  const edit = (rkey: string, badgeType: string): StreamEvent =>
    putEvent(world.nextSeq(), world.now, 'B', definition, rkey, { badgeType }).event
  for (let round = 0; round < 10; round++)
    await fold.apply(
      source,
      [edit('def', 'other'), edit('def', 'endorsement'), edit(`b${round}`, 'other')],
      0,
    )
  assert.deepEqual(await authorsOf(world), [did('B')])
  await doAll(fold)
  assert.deepEqual(await world.endorsements(), ['E A'])
})

test('what an author causes while its work is being done is done, too', async () => {
  // The part of it that is done where the event stands is long past when the event comes.
  await using world = await crowded(700)
  const edit = (badgeType: string): StreamEvent =>
    putEvent(world.nextSeq(), world.now, 'B', definition, 'def', { badgeType }).event
  const [other, back] = [edit('other'), edit('endorsement')]
  let splits = 0
  let edited: Promise<unknown> | undefined
  const fold: Fold = besideFold(
    world,
    splitting(world.connection, () => {
      if (++splits === 3) edited = fold.apply(source, [back], 0)
    }),
  )
  await fold.apply(source, [other], 0)
  await doAll(fold)
  await edited
  await doAll(fold)
  // A refuses every third.
  assert.equal((await world.rows('endorsements')).length, 466, `${splits} parts`)
})

test('a badge that is edited while awards of it are settled counts as it is by then', async () => {
  let parts = Infinity
  for (let editAt = 1; editAt <= parts; editAt++) {
    await using world = await Scenario.start()
    const subject = { $type: 'app.attested.defs#did', did: did('A') }
    const [large, small] = [
      await world.put('B', definition, 'def', { badgeType: 'endorsement' }),
      await world.put('C', definition, 'def', { badgeType: 'endorsement' }),
    ]
    // Awards are settled 200 at a time.
    const events = Array.from({ length: 250 }, (_, n) => {
      const badge = n === 0 || n === 249 ? small : large
      const rkey = String(n).padStart(3, '0')
      return putEvent(world.nextSeq(), world.now, 'E', award, rkey, { badge, subject }).event
    })
    await world.fold.apply(source, events, 0)
    await world.account('E', false, 'deactivated')
    const back = accountEvent(world.nextSeq(), world.now, 'E', true)
    const other = putEvent(world.nextSeq(), world.now, 'C', definition, 'def', { badgeType: 'other' }).event
    let splits = 0
    let edited: Promise<unknown> | undefined
    const fold: Fold = besideFold(
      world,
      splitting(world.connection, () => {
        if (++splits === editAt) edited = fold.apply(source, [other], 0)
      }),
    )
    await fold.apply(source, [back], 0)
    await doAll(fold)
    parts = splits
    await edited
    assert.equal((await world.rows('endorsements')).length, 248, `edited after part ${editAt}`)
  }
  assert.ok(parts > 3, `${parts} parts`)
})

test('what was noted of an author stays so, and where much is noted all that rests on the author is settled', async () => {
  await using world = await Scenario.start()
  const affectedBy = (collection: string, n: number): Affected => {
    const affected = new Affected()
    affected.byRecord({ uri: `at://${did('E')}/x/${n}`, cid: `c${n}`, collection }, undefined)
    return affected
  }
  const put = (wish: Parameters<typeof putBeside>[2]): Promise<void> =>
    world.connection.write((batch) => putBeside(batch, { did: did('E'), seq: 7 }, wish))
  const noted = async () => {
    const [row] = await world.rows('remakes')
    const { listed, badges } = JSON.parse(row?.contents ?? '') as { listed: object[]; badges: object[] } // as it was written
    return [row?.version, row?.accountVersion, row?.isDefiner, row?.isLister, listed.length, badges.length]
  }
  for (let n = 0; n < 10; n++) await put({ affected: affectedBy(definition, n) })
  assert.deepEqual(await noted(), [10n, 0n, 0n, 0n, 0, 10])
  await put({ affected: affectedBy(definition, 10) })
  assert.deepEqual(await noted(), [11n, 0n, 1n, 0n, 0, 0])
  await put({ affected: affectedBy(activity, 1), change: 'hide' })
  assert.deepEqual(await noted(), [12n, 12n, 1n, 0n, 1, 0])
  for (let n = 2; n < 12; n++) await put({ affected: affectedBy(activity, n) })
  assert.deepEqual(await noted(), [22n, 12n, 1n, 1n, 0, 0])
  await put({})
  assert.deepEqual(await noted(), [23n, 12n, 1n, 1n, 0, 0])
})

test('many changes of one batch cost so much where they stand, and the rest is noted by its author', async () => {
  await using world = await Scenario.start()
  const names = Array.from({ length: 10 }, (_, n) => `p${n}x`)
  const events = names.flatMap((name) =>
    Array.from(
      { length: 300 },
      (_, n) => putEvent(world.nextSeq(), world.now, name, activity, `a${n}`, {}).event,
    ),
  )
  await world.fold.apply(source, events, 0)
  const sizes: number[] = []
  const fold = new Fold(sized(world.connection, sizes), policy, views, { besideRows: 200 })
  const away = names.map((name) => accountEvent(world.nextSeq(), world.now, name, false, 'deactivated'))
  await fold.apply(source, away, 0)
  assert.deepEqual(new Set(await authorsOf(world)), new Set(names.map(did)))
  // The first one has 200 rows, and the others 20 each, rounded up to steps of 50.
  assert.ok(Math.max(...sizes) < 1200, sizes.join())
  await doAll(fold)
  assert.deepEqual([await world.entries(), await authorsOf(world)], [[], []])
})

test('an account that changes while its rows are made again waits behind the others', async () => {
  await using world = await crowded(200)
  await world.account('E', false, 'deactivated')
  let splits = 0
  const fold: Fold = besideFold(
    world,
    splitting(world.connection, () => {
      if (++splits > 1) return
      const change = (status: string): StreamEvent =>
        accountEvent(world.nextSeq(), world.now, 'E', false, status)
      void fold.apply(source, [change('suspended'), change('throttled')], 0)
      void fold.apply(source, [change('suspended')], 0)
      void fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'E', true)], 0)
    }),
  )
  await fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'E', true)], 0)
  await fold.apply(
    source,
    [putEvent(world.nextSeq(), world.now, 'B', definition, 'def', { badgeType: 'other' }).event],
    0,
  )
  assert.deepEqual(await authorsOf(world), [did('E'), did('B')])
  await fold.workBeside(never)
  assert.deepEqual(await authorsOf(world), [did('B'), did('E')])
  assert.ok((await world.follows()).length < 200, 'it ends as it is outdated')
  await doAll(fold)
  assert.deepEqual([(await world.follows()).length, await world.endorsements()], [200, []])
})

test('rows of an author that is shown stay while they are made again', async () => {
  await using world = await crowded()
  const seen: number[] = []
  const fold = besideFold(
    world,
    splitting(world.connection, () => void world.follows().then((rows) => seen.push(rows.length))),
  )
  await world.connection.write(async (batch) => {
    await putBeside(batch, { did: did('E'), seq: 1 }, { change: 'show' })
  })
  await doAll(fold)
  assert.ok(seen.length > 2)
  assert.deepEqual(new Set(seen), new Set([60]))
})

test('an account that is hidden comes before all others, and is not shown while it waits for them', async () => {
  await using world = await crowded()
  const fold = besideFold(world)
  const badge = putEvent(world.nextSeq(), world.now, 'B', definition, 'def', { badgeType: 'other' }).event
  await fold.apply(source, [badge], 0)
  await fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown')], 0)
  assert.deepEqual(await authorsOf(world), [did('B'), did('E')])
  await fold.workBeside(never)
  assert.deepEqual([await world.follows(), await world.entries()], [[], []])
  assert.deepEqual(await authorsOf(world), [did('B'), did('E')])
  await doAll(fold)
  assert.deepEqual([await world.follows(), await world.entries()], [[], []])
})

test('changes of many accounts in one batch are settled one after the other', async () => {
  await using world = await Scenario.start()
  const names = Array.from({ length: 30 }, (_, n) => `p${n}x`)
  const events = names.flatMap((name) =>
    Array.from(
      { length: 20 },
      (_, n) => putEvent(world.nextSeq(), world.now, name, activity, `a${n}`, {}).event,
    ),
  )
  const change = (name: string, status: string): StreamEvent =>
    accountEvent(world.nextSeq(), world.now, name, false, status)
  await world.fold.apply(source, [...events, ...names.map((name) => change(name, 'deactivated'))], 0)
  let longest = 0
  const noting: IndexWriter = {
    ...world.connection,
    write: (work) =>
      world.connection.write((batch) => {
        const put = batch.put.bind(batch)
        batch.put = async (table, rows) => {
          if (table === 'policies') longest = Math.max(longest, JSON.stringify(rows).length)
          await put(table, rows)
        }
        return work(batch)
      }),
  }
  const fold = new Fold(noting, policy, views, { besideRows: 10_000, transactionRows: 200, noted: 30 })
  // The first one of an account waits for the last one of the batch, which changes nothing.
  const toggles = ['throttled', 'throttled'].flatMap((status) => names.map((name) => change(name, status)))
  await fold.apply(source, toggles, 0)
  assert.ok(longest < 5000, `${longest} characters`)
  await doAll(fold)
  assert.equal((await world.entries()).length, 600)
})

test('such work that fails is told with the next events, tried some times, and again after a start', async () => {
  await using world = await crowded()
  const fold = besideFold(world)
  const event = accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown')
  await fold.apply(source, [event], 0)
  const [row] = await world.rows('remakes')
  assert.ok(row)
  const store = (contents: string): Promise<void> =>
    world.connection.write((batch) => batch.put('remakes', [{ ...row, contents }]))
  await store('{"listed":7,"badges":[]}')
  await doAll(fold)
  const next = putEvent(world.nextSeq(), world.now, 'A', activity, 'later', {}).event
  const { failed, applied } = await fold.apply(source, [next], 0)
  assert.deepEqual([failed.map(({ seq }) => seq), applied], [Array.from({ length: 3 }, () => event.seq), 1])
  assert.deepEqual([await authorsOf(world), fold.authorsBeside], [[did('E')], 1])
  await world.connection.write((batch) => batch.put('remakes', [{ ...row, failures: 3n }]))
  await doAll(besideFold(world))
  assert.deepEqual([await authorsOf(world), await world.follows()], [[], []])
})

test('such work is left for later when the fold is to stop', async () => {
  await using world = await crowded()
  const stop = new AbortController()
  const writer = splitting(world.connection, () => stop.abort())
  const fold = besideFold(world, writer)
  await fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown')], 0)
  await fold.workBeside(stop.signal)
  assert.ok((await world.follows()).length > 0)
  assert.equal(await fold.workBeside(stop.signal), 0)
  await doAll(besideFold(world))
  assert.deepEqual(await world.entries(), [])
})

test('nothing of an account that is read again is shown because it was settled just before', async () => {
  await using world = await crowded()
  const badge = await world.put('B', definition, 'b', { badgeType: 'endorsement' })
  // The awards that an account has answered are settled before its records go, if they are many.
  for (let n = 0; n < 4; n++) {
    const badgeAward = { uri: `at://${did('B')}/${award}/${n}`, cid: badge.cid }
    await world.put('E', response, `r${n}`, { badgeAward, response: 'accepted' })
  }
  const fold = new Fold(world.connection, policy, views, { noted: 4 })
  const given = putEvent(world.nextSeq(), world.now, 'E', award, 'new', { badge, subject: toA }).event
  await fold.apply(source, [given, syncEvent(world.nextSeq(), world.now, 'E')], 0)
  assert.deepEqual([await world.entries(), await world.endorsements()], [[], []])
})
