/** What is news of a repository, and what marks it as one of which records may be missing. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { Did, Tid } from '@tributary/protocol'
import type {
  AccountMessage,
  Digest,
  IdentityMessage,
  OpFault,
  SyncMessage,
  VerifiedCommit,
  VerifiedSync,
} from '@tributary/repo-verify'
import type { Row } from '@tributary/segment'
import type { WatchPolicy } from '../policy/watched-collections.ts'
import { openStateDatabase } from '../state-database.ts'
import { broughtLive, notesMax } from './archived-records.ts'
import { EventFold } from './event-fold.ts'
import { markerPath } from './repo-refill.ts'
import { RepoStates, unknownRepo } from './repo-states.ts'
import { eventName, noteWritten } from './written-rows.ts'

const did = 'did:plc:a' as Did // only a name here
const rev = (n: number): Tid => `3l${String(n).padStart(11, '2')}` as Tid // of the right form
const tree = (name: string): Digest => name as Digest // only a name here

function foldOf(t: TestContext, policy: Partial<WatchPolicy> = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'event-fold-'))
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  t.after(() => {
    database.close()
    rmSync(directory, { recursive: true })
  })
  const states = new RepoStates(database)
  const rows: number[] = []
  const paths: string[] = []
  let told = 0
  let epoch = 0
  let upstreamSeq = 0
  let nowMs = Date.parse('2026-01-01T00:00:09.000Z')
  const fold = new EventFold({
    states,
    watched: {
      has: () => true,
      names: () => new Set(),
      revision: 1,
      newestAddition: 1,
      isAddedAfter: () => false,
      isAnyAddedAgain: () => false,
      ...policy,
    },
    needsPrevData: true,
    append: ({ draft }) => {
      rows.push(draft.kind)
      paths.push(`${draft.collection}/${draft.rkey}`)
    },
    witnessedNow: () => nowMs * 1000,
    onOpDropped: () => {},
    onDiscontinuity: () => {},
    onTakedown: () => {},
    onActive: () => void told++,
  })
  const body = { bytes: Buffer.from([0xa0]), bodyStart: 0 }
  const message = { ok: true, kind: 'sync', did, ...body } as unknown as SyncMessage // as far as it is looked at
  return {
    states,
    rows,
    paths,
    /** How often it was told that the account may be had. */
    told: () => told,
    isMarked: () => states.get(did)?.needsRefetch,
    markIncomplete: () => fold.markIncomplete(did),
    setClock: (second: number) => {
      nowMs = Date.parse(`2026-01-01T00:00:0${second}.000Z`)
    },
    enterEpoch: () => {
      epoch++
      upstreamSeq = 0
    },
    commit: (
      n: number,
      data: string,
      before?: { n: number; data?: string },
      dropped: readonly OpFault[] = [],
      opPaths: readonly string[] = [`a.b.c/k${n}`],
    ): string | undefined => {
      const since = before ? rev(before.n) : null
      const ops = opPaths.map((path) => {
        const [collection, rkey] = path.split('/')
        return { action: 'delete', collection, rkey }
      })
      const prevData = before?.data === undefined ? undefined : tree(before.data)
      const event = {
        ok: true,
        kind: 'commit',
        did,
        rev: rev(n),
        data: tree(data),
        since,
        prevData,
        ops,
        dropped,
      }
      return fold.apply({ ...event, upstreamSeq: ++upstreamSeq } as unknown as VerifiedCommit, message, epoch)
        ?.reason // likewise
    },
    sync: (n: number, data: string): string | undefined => {
      const event = { ok: true, kind: 'sync', did, rev: rev(n), data: tree(data), upstreamSeq: ++upstreamSeq }
      return fold.apply(event as unknown as VerifiedSync, { ...message, rev: rev(n) }, epoch)?.reason // likewise
    },
    identity: (second: number, handle?: string): string | undefined => {
      const time = `2026-01-01T00:00:0${second}.000Z`
      const event = { ok: true, kind: 'identity', did, time, handle, upstreamSeq: ++upstreamSeq, ...body }
      return fold.apply(event as unknown as IdentityMessage, message, epoch)?.reason // likewise
    },
    account: (second: number, word: { active: boolean; status?: string }): string | undefined => {
      const time = `2026-01-01T00:00:0${second}.000Z`
      const event = { ok: true, kind: 'account', did, time, ...word, upstreamSeq: ++upstreamSeq, ...body }
      return fold.apply(event as unknown as AccountMessage, message, epoch)?.reason // likewise
    },
  }
}

const isBack = { active: true }
const isGone = { active: false, status: 'takendown' }

test('an account that writes and was never read, has another identity or is active may be had, unless it is hidden', (t) => {
  const toldOf = (bring: (fold: ReturnType<typeof foldOf>) => void): number => {
    const fold = foldOf(t)
    bring(fold)
    return fold.told()
  }
  assert.deepEqual(
    [
      toldOf(({ commit }) => commit(5, 'five', { n: 4, data: 'four' })),
      toldOf(({ identity }) => identity(1)),
      toldOf(({ account }) => account(1, isBack)),
    ],
    [1, 1, 1],
  )
  assert.deepEqual(
    [
      toldOf(({ commit }) => commit(1, 'one')),
      toldOf(({ account, identity }) => {
        account(1, isGone)
        identity(2)
      }),
    ],
    [0, 0],
  )
})

test('a repository counts as whole by its first commit of all, and not by the first that came', (t) => {
  const wholeBy = (commit: (fold: ReturnType<typeof foldOf>) => void): number | undefined => {
    const fold = foldOf(t)
    commit(fold)
    return fold.states.get(did)?.completeRevision
  }
  assert.equal(
    wholeBy(({ commit }) => commit(1, 'one')),
    1,
  )
  // Hosts from before Sync 1.1 do not name the tree before a commit.
  for (const before of [{ n: 4 }, { n: 4, data: 'four' }])
    assert.equal(
      wholeBy(({ commit }) => commit(5, 'five', before)),
      0,
    )
})

test('an account event that comes again after a kill does not show what a newer archived one hides', (t) => {
  const { account, states, rows } = foldOf(t)
  const archived = [isBack, isGone].map((word, i) => {
    const time = `2026-01-01T00:00:0${i + 1}.000Z`
    return { event: eventName({ kind: 'account', time, ...word }), rows: 1 }
  })
  states.set(did, { ...unknownRepo, rev: rev(1), isHidden: true, written: archived })
  account(1, isBack)
  assert.equal(states.get(did)?.isHidden, true)
  account(2, isGone)
  assert.deepEqual([states.get(did)?.isHidden, states.get(did)?.needsRefetch, rows], [true, false, []])
  account(3, isBack)
  assert.deepEqual([states.get(did)?.isHidden, states.get(did)?.needsRefetch, rows], [false, true, [5]])
})

test('an account that was taken down stays so, whatever hides it next, until it is back', (t) => {
  const { account, states } = foldOf(t)
  const words = ['deactivated', 'takendown', 'suspended', undefined, 'deactivated', 'deleted']
  const known = words.map((status, i) => {
    account(i + 1, status === undefined ? isBack : { active: false, status })
    return states.get(did)?.isTakenDown
  })
  assert.deepEqual(known, [false, true, true, false, false, true])
})

test('a commit of a hidden account gives no rows, and its repository is read when the account is back', (t) => {
  const { commit, account, isMarked, rows } = foldOf(t)
  account(1, isGone)
  assert.equal(commit(1, 'a'), 'account-hidden')
  assert.equal(commit(2, 'b', { n: 1, data: 'a' }), 'account-hidden')
  // Whether it is back without our having been told, the relay is asked when the repository is to be read.
  assert.deepEqual([isMarked(), rows], [true, [5]])
  account(2, isBack)
  assert.equal(isMarked(), true)
  assert.equal(commit(3, 'c', { n: 2, data: 'b' }), undefined)
  assert.deepEqual(rows, [5, 5, 3])
})

test('an account that the relay called active before its event came is read again after the event', (t) => {
  const { account, commit, isMarked, states } = foldOf(t)
  commit(1, 'a')
  account(1, isGone)
  const corrected = states.get(did) ?? assert.fail()
  states.set(did, { ...corrected, isHidden: false, needsRefetch: false })
  account(2, isBack)
  assert.equal(isMarked(), true)
})

test('a commit that gave no rows before a kill gives none after rows of later ones, and marks its repository', (t) => {
  const { commit, isMarked, states, rows } = foldOf(t)
  const archived = [1, 3].map((n) => ({ event: eventName({ kind: 'commit', rev: rev(n) }), rows: 1 }))
  states.set(did, { ...unknownRepo, written: archived })
  assert.equal(commit(1, 'a'), undefined)
  assert.equal(isMarked(), false)
  assert.equal(commit(2, 'b', { n: 1, data: 'a' }), 'passed-over')
  assert.equal(isMarked(), true)
  assert.equal(commit(3, 'c', { n: 2, data: 'b' }), undefined)
  assert.deepEqual([rows, states.get(did)?.written], [[], []])
})

test('commits before rows of a backfill that a kill left continue the chain, unless a marker is before those', (t) => {
  for (const hasMarker of [false, true]) {
    const { commit, states, rows, isMarked } = foldOf(t)
    commit(1, 'one', undefined)
    const state = states.get(did) ?? assert.fail()
    states.set(did, { ...state, backfillRev: rev(3), written: [{ event: `commit ${rev(2)}`, rows: 1 }] })
    if (hasMarker) states.archived.note(did, markerPath, rev(3))
    assert.equal(commit(2, 'two', { n: 1, data: 'one' }), 'stale-rev')
    assert.equal(commit(3, 'three', { n: 2, data: 'two' }), 'stale-rev')
    assert.equal(rows.length, 1)
    assert.equal(commit(4, 'four', { n: 3, data: 'three' }), undefined)
    assert.deepEqual([rows.length, isMarked()], [2, hasMarker])
    if (!hasMarker) assert.deepEqual(states.get(did)?.written, [])
  }
})

test('a commit whose rows were archived before its account was hidden is not missing when it comes again', (t) => {
  const { commit, isMarked, states } = foldOf(t)
  const written = [{ event: eventName({ kind: 'commit', rev: rev(1) }), rows: 1 }]
  states.set(did, { ...unknownRepo, isHidden: true, written })
  assert.equal(commit(1, 'a'), undefined)
  assert.deepEqual([isMarked(), states.get(did)?.written], [false, []])
})

test('a commit or sync that comes again, or comes late, gives no row', (t) => {
  const { commit, sync, rows } = foldOf(t)
  assert.equal(commit(5, 'x'), undefined)
  assert.deepEqual([commit(5, 'x'), commit(4, 'w')], ['stale-rev', 'stale-rev'])
  assert.equal(sync(5, 'x'), undefined)
  assert.deepEqual([sync(5, 'x'), sync(4, 'w')], ['repeat', 'stale-rev'])
  assert.deepEqual(rows, [3, 6])
})

test('records of an added collection are noted up to a bound, from which on their repository is marked instead', (t) => {
  const { commit, isMarked, states } = foldOf(t, { newestAddition: 2, isAddedAfter: () => true })
  commit(1, 'a')
  commit(2, 'b', { n: 1, data: 'a' })
  assert.deepEqual([...states.archived.of(did).keys()], ['a.b.c/k1', 'a.b.c/k2'])
  for (let n = 2; n < notesMax; n++) states.archived.note(did, `a.b.c/${n}`, broughtLive)
  assert.equal(isMarked(), false)
  commit(3, 'c', { n: 2, data: 'b' })
  commit(4, 'd', { n: 3, data: 'c' })
  assert.deepEqual([isMarked(), states.archived.of(did).size], [true, notesMax])
})

test('a commit that does not continue the tree that is stored marks the repository, which stays marked', (t) => {
  const { commit, sync, isMarked, rows } = foldOf(t)
  commit(1, 'a')
  commit(2, 'b', { n: 1, data: 'a' })
  assert.equal(isMarked(), false)
  assert.equal(commit(3, 'c', { n: 2, data: 'other' }), undefined)
  assert.equal(isMarked(), true)
  commit(4, 'd', { n: 3, data: 'c' })
  sync(4, 'd')
  assert.equal(isMarked(), true)
  assert.equal(rows.length, 5)
})

test('a sync marks the repository when its tree is not the one that is stored, of the same revision too', (t) => {
  const { commit, sync, isMarked } = foldOf(t)
  commit(1, 'a')
  sync(1, 'a')
  assert.equal(isMarked(), false)
  const other = foldOf(t)
  other.commit(1, 'a')
  other.sync(1, 'b')
  assert.equal(other.isMarked(), true)
  sync(2, 'c')
  assert.equal(isMarked(), true)
})

test('a repository of which an event was given up stays marked', (t) => {
  const { commit, markIncomplete, isMarked } = foldOf(t)
  commit(1, 'a')
  markIncomplete()
  commit(2, 'b', { n: 1, data: 'a' })
  assert.equal(isMarked(), true)
})

test('a commit without a record that its tree has marks the repository, one with a record of no use does not', (t) => {
  const { commit, isMarked } = foldOf(t)
  commit(1, 'a', undefined, ['unreadable-record'])
  assert.equal(isMarked(), false)
  commit(2, 'b', { n: 1, data: 'a' }, ['missing-record'])
  assert.equal(isMarked(), true)
})

test('a commit of a known repository that does not name the tree before it is refused, and has it read again', (t) => {
  const { commit, isMarked } = foldOf(t)
  commit(1, 'a')
  assert.equal(commit(2, 'b'), 'missing-prev-data')
  assert.equal(isMarked(), true)
})

test('an identity event gives a row for each number of one numbering, and for a later time in the next', (t) => {
  const { identity, enterEpoch, states } = foldOf(t)
  assert.deepEqual([identity(5), identity(3)], [undefined, undefined], 'whatever the clock of its host says')
  enterEpoch()
  assert.deepEqual(
    [identity(2), identity(3, 'other.example.com')],
    ['repeat', 'repeat'],
    'of the same time, too',
  )
  assert.deepEqual([identity(3), identity(4)], ['repeat', undefined])
  // As an older version wrote it.
  states.set(did, { ...unknownRepo, identitySeen: '1 identity 2026-01-01T00:00:06.000Z ' })
  assert.deepEqual([identity(6), identity(7)], ['repeat', undefined])
})

test('a takedown counts after an event of a host whose clock was ahead, over a change of the relay', (t) => {
  const { account, enterEpoch, setClock, states } = foldOf(t)
  setClock(2)
  account(9, isBack)
  enterEpoch()
  assert.equal(account(9, isBack), 'repeat')
  assert.equal(account(4, isGone), undefined)
  assert.equal(states.get(did)?.isHidden, true)
})

test('what is kept of an identity event is short, whatever its handle is', (t) => {
  const { identity, states } = foldOf(t)
  const long = 'x'.repeat(1_000_000)
  assert.deepEqual([identity(5, long), identity(5, `${long}y`)], [undefined, undefined])
  assert.ok((states.get(did)?.identitySeen.length ?? 0) < 200, 'some hundred bytes')
})

test('of a commit that comes again after a kill, each row is archived once, whatever is watched by then', (t) => {
  const archived = (rkey: string, n: number): Row => {
    const names = { did, collection: 'app.a.first', rkey, rev: rev(1) }
    return { ...names, kind: 3, seq: n, witnessedAt: 1, indexedAt: 0, payload: new Uint8Array(0) }
  }
  const operations = ['app.a.second/z', 'app.a.first/x', 'app.a.first/x', 'app.a.first/y']
  const again = (written: Row[], watched: readonly string[]): string[] => {
    const { commit, states, paths } = foldOf(t)
    noteWritten(states, written)
    assert.equal(commit(1, 'a', undefined, [], watched), undefined)
    assert.deepEqual(states.get(did)?.written, [])
    return paths
  }
  const x = archived('x', 1)
  assert.deepEqual(again([x], operations), ['app.a.second/z', 'app.a.first/x', 'app.a.first/y'])
  assert.deepEqual(again([x, archived('x', 2)], operations), ['app.a.second/z', 'app.a.first/y'])
  assert.deepEqual(again([x, archived('y', 2)], ['app.a.first/x']), [])
})
