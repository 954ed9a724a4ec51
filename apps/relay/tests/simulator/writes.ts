/** Commits as stock PDSs make them, over a few keys of every layer that a small tree can have. */
import { createHash } from 'node:crypto'
import type { RepoWrite, SignedCommit, SignedRepo } from '@tributary/testkit'
import type { Random } from '@tributary/testkit/disk'

const collection = 'org.impact.collection'
/** How many keys there are of each layer. */
const keysPerLayer = [6, 3, 2, 1]
const rkeys = keysPerLayer.flatMap((count, layer) => rkeysOf(collection, layer, count))

/** Record keys that a tree has in one layer. */
export function rkeysOf(collection: string, layer: number, count: number): string[] {
  const found: string[] = []
  for (let n = 0; found.length < count; n++) {
    const digest = createHash('sha256').update(`${collection}/r${n}`).digest()
    // Each layer is two more zero bits at the start.
    if (Math.floor(Math.clz32(digest.readUInt32BE(0)) / 2) === layer) found.push(`r${n}`)
  }
  return found
}

/** The next commit. */
export function commitOf(repo: SignedRepo, rev: string, random: Random): SignedCommit {
  return repo.commit(writesOf(repo, rev, random), rev)
}

/** The commit that could come next. The repository stays as it is. */
export function draftOf(repo: SignedRepo, rev: string, random: Random): SignedCommit {
  return repo.draft(writesOf(repo, rev, random), rev)
}

function writesOf(repo: SignedRepo, rev: string, random: Random): RepoWrite[] {
  const there = new Set(repo.records().map(([path]) => path.slice(path.indexOf('/') + 1)))
  const record = (): { text: string } => ({ text: `${rev} ${random.below(1e9)}` })
  const writes: RepoWrite[] = []
  if (there.size > 0 && random.next() < 0.12) {
    // The tree is emptied first, and the next record may lie lower than those before.
    const kept = random.pick(rkeys.filter((rkey) => !there.has(rkey)))
    for (const rkey of there) writes.push({ action: 'delete', collection, rkey })
    writes.push({ action: 'create', collection, rkey: kept, record: record() })
    return writes
  }
  const changed = new Set<string>()
  for (let ops = 1 + random.below(3); ops > 0; ops--) {
    const rkey = random.pick(rkeys)
    if (changed.has(rkey)) continue
    changed.add(rkey)
    if (!there.has(rkey)) writes.push({ action: 'create', collection, rkey, record: record() })
    else if (random.next() < 0.5) writes.push({ action: 'delete', collection, rkey })
    else writes.push({ action: 'update', collection, rkey, record: record() })
  }
  return writes
}
