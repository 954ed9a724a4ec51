import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseDidKey, readMessage } from '@tributary/repo-verify'
import { SignedRepo, tidAt } from '@tributary/testkit'
import { randomFrom } from '@tributary/testkit/disk'
import { Verifier } from '../../src/verify/verifier.ts'
import { commitDraft, frameOf, type Draft } from './frames.ts'
import { didOf, signerOf } from './hosts.ts'
import { wrongDraft, wrongs } from './wrong-messages.ts'
import { commitOf, draftOf } from './writes.ts'

const nowMs = 1_770_000_000_000
const signer = signerOf(1)
const key = parseDidKey(signer.did())

/** Whether a message is let through. */
function passes(draft: Draft): boolean {
  const frame = Buffer.from(frameOf(draft, 7, new Date(nowMs).toISOString()))
  const message = readMessage(frame)
  if (!message.ok || (message.kind !== 'commit' && message.kind !== 'sync')) return message.ok
  return new Verifier(() => nowMs).verify(frame, key, true).ok
}

for (const name of wrongs)
  test(`refused: ${name}`, () => {
    for (let seed = 0; seed < 10; seed++) {
      const random = randomFrom(seed)
      const repo = new SignedRepo(didOf(`wrong ${seed}`), signer)
      const revAt = (n: number): string => tidAt(nowMs * 1000 + n)
      for (let n = 0; n <= seed; n++) commitOf(repo, revAt(n), random)
      const made = { rev: revAt(100), nowMs, random }
      assert.ok(!passes(wrongDraft(name, { repo, handle: 'one.example.com' }, made)), `seed ${seed}`)
      assert.ok(passes(commitDraft(draftOf(repo, revAt(100), random))))
    }
  })
