import type { RepoWrite } from '@tributary/testkit'
import type { Random } from '@tributary/testkit/disk'
import { collections } from './collections.ts'

/** What a commit writes to a repository that has these records. */
export function writesOf(paths: readonly string[], random: Random, prefix = 'r'): RepoWrite[] {
  const changed = new Set<string>()
  const writes: RepoWrite[] = []
  for (let ops = 1 + random.below(3); ops > 0; ops--) {
    const collection = random.pick(collections)
    const rkey = `${prefix}${random.below(6)}`
    const path = `${collection}/${rkey}`
    if (changed.has(path)) continue
    changed.add(path)
    const record = { text: `${random.below(1e9)} ${'x'.repeat(random.below(random.pick([1, 100, 2000])))}` }
    if (!paths.includes(path)) writes.push({ action: 'create', collection, rkey, record })
    else if (random.next() < 0.5) writes.push({ action: 'delete', collection, rkey })
    else writes.push({ action: 'update', collection, rkey, record })
  }
  return writes
}
