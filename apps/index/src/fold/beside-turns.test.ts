/** Whose work beside the events comes when, and how much of it is done where its event stands. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IndexStorageError } from '@tributary/index-store'
import { feedCollections, type StreamEvent } from '@tributary/protocol'
import { crowded, policy, sized, source, splitting } from '../../tests/crowded.ts'
import { accountEvent, did, putEvent, Scenario, views } from '../../tests/scenario.ts'
import { Fold } from './fold.ts'

const { award, definition, follow } = feedCollections
const besideRows = 20
/** Parts of the names of accounts. */
const letters = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
const never = new AbortController().signal

function edit(world: Scenario, name: string, badgeType: string): StreamEvent {
  return putEvent(world.nextSeq(), world.now, name, definition, 'def', { badgeType }).event
}

/** As many follows of each of these accounts, which feeds show. */
async function follows(world: Scenario, names: readonly string[], count: number): Promise<void> {
  const events = names.flatMap((name) =>
    Array.from(
      { length: count },
      (_, n) => putEvent(world.nextSeq(), world.now, name, follow, `f${n}`, { subject: did('A') }).event,
    ),
  )
  await world.fold.apply(source, events, 0)
}

async function followsOf(world: Scenario, name: string): Promise<number> {
  return (await world.rows('follows')).filter(({ viewer }) => viewer === did(name)).length
}

async function isWaiting(world: Scenario, name: string): Promise<boolean> {
  return (await world.rows('remakes')).some((row) => row.did === did(name))
}

/** E has given 450 awards of B's badge, and each of these accounts follows 150 times. */
async function crowdedWith(...names: string[]): Promise<Scenario> {
  const world = await crowded(450)
  await follows(world, names, 150)
  return world
}

test('an account that is hidden and writes on holds up the work of no other', async () => {
  await using world = await crowdedWith()
  const badge = await world.put('H', definition, 'def', { badgeType: 'endorsement' })
  const subject = { $type: 'app.attested.defs#did', did: did('A') }
  const given = Array.from(
    { length: 450 },
    (_, n) => putEvent(world.nextSeq(), world.now, 'G', award, `g${n}`, { badge, subject }).event,
  )
  await world.fold.apply(source, given, 0)
  await world.account('H', false, 'deactivated')
  let edits = 0
  const ofHidden = (): StreamEvent => edit(world, 'H', edits++ % 2 === 0 ? 'other' : 'endorsement')
  const fold: Fold = new Fold(
    splitting(world.connection, () => void fold.apply(source, [ofHidden()], 0)),
    policy,
    views,
    { besideRows },
  )
  await fold.apply(source, [ofHidden()], 0)
  await fold.apply(source, [edit(world, 'B', 'other')], 0)
  let rounds = 0
  while ((await isWaiting(world, 'B')) && rounds < 5) {
    await fold.workBeside(never)
    rounds++
  }
  assert.equal(await isWaiting(world, 'B'), false, `${rounds} rounds, ${edits} edits`)
  await fold.finish()
})

test('an account is hidden while the work of another is under way, which goes on where it was', async () => {
  const partsOf = async (isHidden: boolean): Promise<number> => {
    await using world = await crowdedWith('H')
    let parts = 0
    const fold: Fold = new Fold(
      splitting(world.connection, () => {
        if (++parts !== 1 || !isHidden) return
        void fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'H', false, 'takendown')], 0)
      }),
      policy,
      views,
      { besideRows },
    )
    await fold.apply(source, [edit(world, 'B', 'other')], 0)
    await fold.workBeside(never)
    assert.equal(await followsOf(world, 'H'), isHidden ? 0 : 150)
    assert.deepEqual([await isWaiting(world, 'B'), await isWaiting(world, 'H')], [false, isHidden])
    return parts
  }
  const [alone, together] = [await partsOf(false), await partsOf(true)]
  assert.ok(alone > 2, `${alone} parts`)
  // Where its event stands 50 follows are removed, and beside it 100 in steps of 50.
  assert.equal(together, alone + 2)
})

test('after an account is hidden it is the turn of others, also while more are to be hidden', async () => {
  await using world = await crowdedWith('H', 'G')
  const fold = new Fold(world.connection, policy, views, { besideRows })
  await fold.apply(source, [edit(world, 'B', 'other')], 0)
  for (const name of ['H', 'G'])
    await fold.apply(source, [accountEvent(world.nextSeq(), world.now, name, false, 'takendown')], 0)
  await fold.workBeside(never)
  assert.deepEqual([await followsOf(world, 'H'), await isWaiting(world, 'B')], [0, true])
  assert.ok((await followsOf(world, 'G')) > 0)
  await fold.workBeside(never)
  assert.deepEqual([await followsOf(world, 'G'), await isWaiting(world, 'B')], [0, false])
})

test('accounts that are hidden and shown all the time leave half of the work to others', async () => {
  const names = letters.map((letter) => `p${letter}x`)
  await using world = await crowdedWith(...names)
  let parts = 0
  const toggle = (n: number): StreamEvent =>
    accountEvent(world.nextSeq(), world.now, names[n % 8] ?? '', (n >> 3) % 2 === 1, 'deactivated')
  const fold: Fold = new Fold(
    splitting(world.connection, () => void fold.apply(source, [toggle(parts++)], 0)),
    policy,
    views,
    { besideRows },
  )
  await fold.apply(source, [edit(world, 'B', 'other')], 0)
  for (let rounds = 0; rounds < 40 && (await isWaiting(world, 'B')); rounds++) await fold.workBeside(never)
  assert.equal(await isWaiting(world, 'B'), false, `${parts} parts`)
  assert.ok(parts < 400, `${parts} parts`)
  await fold.finish()
})

test('a fault of the database while an account is hidden within the work of another ends both, and a start does both', async () => {
  await using world = await crowdedWith('H')
  let parts = 0
  const fold: Fold = new Fold(
    splitting(world.connection, () => {
      if (++parts === 2) void fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'H', false)], 0)
      if (parts === 3) throw new IndexStorageError('planted')
    }),
    policy,
    views,
    { besideRows },
  )
  await fold.apply(source, [edit(world, 'B', 'other')], 0)
  await assert.rejects(fold.workBeside(never), { message: 'planted' })
  const left = await followsOf(world, 'H')
  assert.ok(left > 0 && left < 150, `${left} follows`)
  const next = new Fold(world.connection, policy, views, { besideRows })
  while (await next.workBeside(never));
  assert.deepEqual([await followsOf(world, 'H'), await world.endorsements()], [0, []])
})

test('a batch of very many accounts costs so much where it stands, and again next to nothing', async () => {
  await using world = await Scenario.start()
  const names = letters.flatMap((a) => letters.map((b) => `p${a}${b}x`))
  await follows(world, names, 20)
  const sizes: number[] = []
  const fold = new Fold(sized(world.connection, sizes), policy, views, { besideRows: 200 })
  const costOf = async (isActive: boolean): Promise<number> => {
    const events = names.map((name) =>
      accountEvent(world.nextSeq(), world.now, name, isActive, isActive ? undefined : 'deactivated'),
    )
    sizes.length = 0
    await fold.apply(source, events, 0)
    return sizes.reduce((sum, size) => sum + size, 0)
  }
  await costOf(false)
  const counted = (await world.rows('remakes')).length
  assert.ok(counted > 30, `${counted} accounts are noted`)
  const [back, again] = [await costOf(true), await costOf(false)]
  assert.ok(Math.max(back, again) < 64 * 25, `${back} and ${again} rows`)
  while (await fold.workBeside(never));
  assert.deepEqual([await world.rows('follows'), await world.rows('remakes')], [[], []])
})

test('work that is noted already is not begun where its event stands', async () => {
  await using world = await crowdedWith()
  const sizes: number[] = []
  const fold = new Fold(sized(world.connection, sizes), policy, views, { besideRows: 200 })
  const costOf = async (event: StreamEvent): Promise<number> => {
    sizes.length = 0
    await fold.apply(source, [event], 0)
    return Math.max(...sizes)
  }
  for (const event of [
    (n: number) => edit(world, 'B', n % 2 === 0 ? 'other' : 'endorsement'),
    (n: number) => accountEvent(world.nextSeq(), world.now, 'E', n % 2 === 1, 'deactivated'),
  ]) {
    const costs: number[] = []
    for (let n = 0; n < 4; n++) costs.push(await costOf(event(n)))
    const [first = 0, , ...later] = costs
    assert.ok(first > 200 && Math.max(...later) < 60, costs.join())
  }
  while (await fold.workBeside(never));
  assert.equal((await world.rows('follows')).length, 450)
  // A refuses every third.
  assert.equal((await world.rows('endorsements')).length, 300)
})

test('an account whose hiding is outdated does not vanish', async () => {
  await using world = await crowdedWith('H')
  const fold = new Fold(world.connection, policy, views, { besideRows: 0 })
  await fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'H', false, 'deactivated')], 0)
  // It is read again, which shows it where the event stands.
  const [row] = await world.rows('accounts').then((rows) => rows.filter((each) => each.did === did('H')))
  assert.ok(row)
  await world.connection.write((batch) => batch.put('accounts', [{ ...row, status: 'active', hidden: 0n }]))
  await fold.workBeside(never)
  assert.equal(await followsOf(world, 'H'), 150)
  while (await fold.workBeside(never));
  assert.equal(await followsOf(world, 'H'), 150)
  assert.equal(await isWaiting(world, 'H'), false)
})
