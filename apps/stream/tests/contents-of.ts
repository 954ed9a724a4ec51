import assert from 'node:assert/strict'
import type { Did } from '@tributary/protocol'
import { readRepoCar } from '@tributary/repo-verify'
import { encodeCar, type ScriptedAccount } from '@tributary/testkit'
import type { RepoContents } from '../src/ingest/repo-refill.ts'

/** The repository of an account as a backfill reads it. */
export function contentsOf(account: ScriptedAccount): RepoContents {
  const car = encodeCar(account.head.cid, account.blocks())
  const did = account.did as Did // of a real account
  const repo = readRepoCar(car, { did, key: 'unchecked', nowMs: Date.now() })
  assert.ok(repo.ok)
  return {
    did,
    rev: repo.rev,
    data: repo.data,
    records: repo.records,
    watchRevision: 1,
    marksBefore: Infinity,
  }
}
