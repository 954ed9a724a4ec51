/** What must hold when all has come, is saved and compacted, and nobody subscribes: nothing goes on, and nothing is held. */
import type { EventLog } from '@tributary/event-log'
import type { StreamProcess, World } from './stream-process.ts'

interface AtRest {
  stream: StreamProcess
  world: World
  /** The log of the archive. */
  log: EventLog
  pass: (ms: number) => Promise<void>
  /** How often a repository was asked for. */
  asked: () => number
}

/** Long enough for some passes of a compaction. */
const restMs = 30_000
const readMsMax = 600_000

/** @returns what does not hold. */
export async function restFaults(rest: AtRest): Promise<string[]> {
  const { stream, world, pass } = rest
  const { delivery, fanout, archive, ingest, states } = stream.parts
  const before = busyness(rest)
  await pass(restMs)
  const faults: string[] = []
  for (const [what, count] of Object.entries(busyness(rest)))
    if (count !== before[what]) faults.push(`A7: at rest, ${what} go from ${before[what]} to ${count}`)
  // Everything is in blocks.
  delivery.forgetArchived()
  const held = {
    subscribers: fanout.size,
    filters: delivery.groupCount,
    'bytes of the newest events': delivery.tailBytes,
    'bytes of blocks': delivery.cacheBytes,
    'rows in no block': archive.pendingRows,
    'accounts that wait': ingest.waitingAccounts,
    'marked repositories': world.upkeep.listedAfterMs === undefined ? 0 : states.markedCount(),
  }
  for (const [what, count] of Object.entries(held))
    if (count !== 0) faults.push(`A3: at rest, ${count} ${what} are held`)
  faults.push(...toldFaults(rest))
  return [...faults, ...(await world.time.until(loggedFaults(rest), readMsMax))]
}

/** What operators are told of accounts, and what the stream goes by, is what is stored of each. */
function toldFaults({ stream: { parts }, world }: AtRest): string[] {
  const { states } = parts
  const of = (isWanted: (did: string) => boolean | undefined): string =>
    world.accounts
      .map(({ did }) => did as string)
      .filter((did) => isWanted(did) === true)
      .toSorted()
      .join()
  const marked = of((did) => states.get(did)?.needsRefetch && !states.get(did)?.isHidden)
  const hidden = of((did) => states.get(did)?.isHidden)
  const count = marked === '' ? 0 : marked.split(',').length
  const faults: string[] = []
  if (states.markedCount() !== count)
    faults.push(`A7: ${states.markedCount()} repositories are said to be marked, and ${marked} are`)
  if (states.hidden().toSorted().join() !== hidden)
    faults.push(`A7: ${states.hidden().join()} are said to be hidden, and ${hidden} are`)
  return faults
}

/** What is known of each account, and of what is done. A start knows the same. */
export function knownOf({ parts: { states, compaction, watched } }: StreamProcess, world: World): string {
  const accounts = world.accounts.map(({ did }) => {
    const state = states.get(did)
    return {
      ...state,
      records: [...states.archived.of(did)].map((each) => each.join(' ')).toSorted(),
    }
  })
  const { compactedSeq, pendingTakedowns } = compaction.report
  const known = {
    accounts,
    position: states.position,
    compactedSeq,
    pendingTakedowns,
    watched: watched.revision,
  }
  return JSON.stringify(known)
}

function busyness({ stream, asked }: AtRest): Readonly<Record<string, string | number>> {
  const { archive } = stream.parts
  return {
    rows: archive.appendedSeq,
    segments: archive.segments.sealed.map(({ name, header }) => `${name} ${header.checksum}`).join(),
    'questions for repositories': asked(),
  }
}

/** Rows that have left the archive stand nowhere else. */
async function loggedFaults({ log, stream }: AtRest): Promise<string[]> {
  const { segments } = stream.parts.archive
  const kept = new Set<number>()
  for (let place = segments.firstBlockAfter(0); place; place = segments.firstBlockAfter(place.entry.maxSeq))
    for (const { seq } of (await segments.readBlock(place)).rows()) kept.add(seq)
  const faults: string[] = []
  for await (const slice of log.replay(0))
    for (let row = 0; row < slice.count; row++)
      if (!kept.has(slice.seqAt(row)))
        faults.push(`row ${slice.seqAt(row)} has left the archive, and not its log`)
  return faults.slice(0, 1)
}
