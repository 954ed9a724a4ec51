/** What must hold when the world has been as it should be for a while. */
import type { Ledger } from './ledger.ts'
import { cacheBytesMax, type StreamProcess, type World } from './stream-process.ts'

/** @returns what does not hold yet. */
export async function settledFaults(
  stream: StreamProcess | undefined,
  world: World,
  ledger: Ledger,
): Promise<string[]> {
  if (!stream?.hasStarted) return ['A4: the stream does not start']
  const { ingest, states, jobs } = stream.parts
  const { tip } = world.relay
  const faults = ledger.missing()
  if (ingest.cursor !== tip) faults.push(`the cursor is at ${ingest.cursor} of ${tip}`)
  if (states.position?.cursor !== tip)
    faults.push(`the saved cursor is at ${states.position?.cursor} of ${tip}`)
  for (const { id, host, state } of jobs.jobs()) {
    const { pending, failed } = jobs.counts(id)
    if (state === 'done' && failed === 0) continue
    faults.push(`A7: the backfill of ${host} is ${state}, with ${pending} to come and ${failed} failed`)
    // Its host has given nothing of use for long. An operator sees that, and has it tried again.
    if (failed > 0) jobs.retry(id, stream.clock.nowMs())
  }
  const collections = wholeCollections(world, ledger)
  const { hosts } = await stream.parts.coverage.page('', hostsMax)
  for (const { hostname, collections: ofHost } of hosts)
    for (const { collection, status, reason } of ofHost)
      if (status !== 'complete')
        faults.push(`A7: coverage calls ${collection} of ${hostname} ${status}: ${reason}`)
  for (const { index, did, status } of world.accounts) {
    if (status !== 'active') continue
    if (states.get(did)?.needsRefetch) faults.push(`A7: account ${index} is still to be made whole`)
    const difference = ledger.account(did).difference(collections)
    if (difference !== undefined) faults.push(`A7: of account ${index} ${difference}`)
  }
  return faults
}

/** Has everything compacted. @returns what is wrong with the archive then. */
export async function compactedFaults(
  { parts: { archive, compaction }, clock }: StreamProcess,
  world: World,
  ledger: Ledger,
): Promise<string[]> {
  const isDone = (): boolean => {
    const { isRunning, endedAtMs, pendingTakedowns } = compaction.report
    return !isRunning && endedAtMs >= fromMs && pendingTakedowns === 0
  }
  await archive.seal()
  const fromMs = clock.nowMs()
  compaction.compact()
  while (!isDone()) await new Promise<void>((resolve) => void clock.after(lookMs, resolve))
  const statuses = new Map(world.accounts.map(({ did, status }) => [did as string, status]))
  const statusOf = (did: string): string => statuses.get(did) ?? ''
  return await ledger.compacted(archive, statusOf, wholeCollections(world, ledger))
}

/** Those of which the archive has to have everything. Without a host that is listed, an addition has nothing read. */
function wholeCollections({ upkeep }: World, ledger: Ledger): ReadonlySet<string> {
  return upkeep.listedAfterMs === undefined ? ledger.watchedThroughout : ledger.watched
}

const lookMs = 500
const hostsMax = 10

/** A block with its messages takes less than so many times its bytes, and so much for each row. */
const decoded = { times: 4, bytesPerRow: 1000 }

/** Blocks that are kept decoded take more than their bound and the newest of them. */
export function cacheFault({ parts: { delivery, archive } }: StreamProcess): string | undefined {
  const { cacheBytes } = delivery
  if (cacheBytes <= 2 * cacheBytesMax) return undefined
  const { sealed, activeBlocks } = archive.segments
  const blocks = [...activeBlocks, ...sealed.flatMap((segment) => segment.blocks)]
  const newestMax = blocks.reduce((most, { uncompressedSize, eventCount }) => {
    const bytes = decoded.times * uncompressedSize + decoded.bytesPerRow * eventCount
    return Math.max(most, bytes)
  }, 0)
  return cacheBytes > cacheBytesMax + newestMax ? `decoded blocks take ${cacheBytes} bytes` : undefined
}
