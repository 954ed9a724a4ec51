/** What a relay says of an account when it is asked, against what its events have said. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { HiddenAccounts } from '../delivery/hidden-accounts.ts'
import { openStateDatabase } from '../state-database.ts'
import { AccountCorrections, type AccountWord } from './account-corrections.ts'
import { RepoStates, unknownRepo } from './repo-states.ts'

const did = 'did:plc:a'
const seen = '0/1/1 account 2026-01-01T00:00:00.000Z true '
const active: AccountWord = { active: true, status: undefined }
const down = (status: string): AccountWord => ({ active: false, status })

interface Outcome {
  isHidden: boolean | undefined
  isTakenDown: boolean | undefined
  isMarked: boolean | undefined
  isShown: boolean
  /** What was reported, in order. */
  told: string[]
}

/** What becomes of an account that is shown or hidden when the relay is asked for it. */
async function outcomeOf(
  before: boolean | 'taken down',
  word: AccountWord,
  seenBefore = seen,
): Promise<Outcome> {
  const [wasHidden, wasTakenDown] = [before !== false, before === 'taken down']
  await using directory = await mkdtempDisposable(join(tmpdir(), 'corrections-'))
  const database = openStateDatabase(join(directory.path, 'state.sqlite'))
  using _closing = { [Symbol.dispose]: () => void database.close() }
  const states = new RepoStates(database)
  const hidden = new HiddenAccounts(wasHidden ? [did] : [])
  const told: string[] = []
  const observer = {
    onTakedown: () => void told.push('takedown'),
    onActive: () => void told.push('active'),
    onNotice: () => void told.push('notice'),
  }
  states.set(did, {
    ...unknownRepo,
    rev: '3l2',
    accountSeen: seen,
    isHidden: wasHidden,
    isTakenDown: wasTakenDown,
  })
  // A row of before is on its way to readers.
  const durable = setImmediate().then(() => hidden.set(did, wasHidden))
  const sink = { whenDurable: () => durable }
  await new AccountCorrections({ states, hidden, sink, observer }).correct(did, word, seenBefore)
  await durable
  const position = { relayUrl: 'ws://relay', epoch: 0, epochBeganMs: 0, cursor: 1 }
  await states.save(position, { appliedSeq: 1, blockSeq: 0 }, Promise.resolve())
  const { isHidden, needsRefetch, ...saved } = new RepoStates(database).get(did) ?? unknownRepo
  return { isHidden, isTakenDown: saved.isTakenDown, isMarked: needsRefetch, isShown: !hidden.has(did), told }
}

test('an account that is hidden is shown, and read as a whole, when the relay calls it active', async () => {
  const back = {
    isHidden: false,
    isTakenDown: false,
    isMarked: true,
    isShown: true,
    told: ['notice', 'active'],
  }
  for (const before of [true, 'taken down'] as const) assert.deepEqual(await outcomeOf(before, active), back)
})

test('an account that is shown is hidden for what an event would hide it for', async () => {
  const gone = { isHidden: true, isMarked: false, isShown: false }
  for (const status of ['takendown', 'deleted'])
    assert.deepEqual(await outcomeOf(false, down(status)), {
      ...gone,
      isTakenDown: true,
      told: ['notice', 'takedown'],
    })
  for (const status of ['deactivated', 'suspended', 'inactive'])
    assert.deepEqual(await outcomeOf(false, down(status)), { ...gone, isTakenDown: false, told: ['notice'] })
})

test('the records of an account that is hidden for another reason leave the archive when it was taken down since', async () => {
  for (const status of ['takendown', 'deleted'])
    assert.deepEqual(await outcomeOf(true, down(status)), {
      isHidden: true,
      isTakenDown: true,
      isMarked: false,
      isShown: false,
      told: ['notice', 'takedown'],
    })
})

test('reasons of the relay itself neither hide an account nor show it, and what is known is no news', async () => {
  const asBefore = { isTakenDown: false, isMarked: false, told: [] }
  for (const word of [down('throttled'), down('desynchronized'), active])
    assert.deepEqual(await outcomeOf(false, word), { ...asBefore, isHidden: false, isShown: true })
  for (const word of [down('throttled'), down('desynchronized'), down('suspended')])
    assert.deepEqual(await outcomeOf(true, word), { ...asBefore, isHidden: true, isShown: false })
  for (const word of [down('takendown'), down('deleted'), down('deactivated')])
    assert.deepEqual(await outcomeOf('taken down', word), {
      ...asBefore,
      isTakenDown: true,
      isHidden: true,
      isShown: false,
    })
})

test('an answer is not believed when an event of the account came after the question', async () => {
  const asBefore = { isTakenDown: false, isMarked: false, told: [] }
  assert.deepEqual(await outcomeOf(true, active, ''), { ...asBefore, isHidden: true, isShown: false })
  assert.deepEqual(await outcomeOf(false, down('takendown'), ''), {
    ...asBefore,
    isHidden: false,
    isShown: true,
  })
})
