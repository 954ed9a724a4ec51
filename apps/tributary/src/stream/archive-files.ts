/** What `tributary stream archive …` does with the files of a stream. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { repairArchive, verifyArchive } from '@tributary/stream/archive-tools'
import { attempt } from '../attempt.ts'
import { FileUseError } from '../command-errors.ts'
import { counted } from '../counted.ts'
import { printJson } from '../print-json.ts'

export interface ArchiveOptions {
  dataDirectory: string
  json: boolean
}

type Segment = Parameters<Parameters<typeof verifyArchive>[1]>[0]

/** Reads every row of the archive. @returns the exit code: 1 when something is damaged. */
export async function verify(options: ArchiveOptions): Promise<number> {
  return await attempt('tributary stream archive verify', () => verifying(options))
}

/** Makes a damaged archive one that opens again. @returns the exit code. */
export async function repair(options: ArchiveOptions): Promise<number> {
  return await attempt('tributary stream archive repair', () => repairing(options))
}

async function verifying({ dataDirectory, json }: ArchiveOptions): Promise<number> {
  requireArchive(dataDirectory)
  let damaged = 0
  const segments: Segment[] = []
  const log = await verifyArchive(dataDirectory, (segment) => {
    damaged += segment.damage.length
    if (json) segments.push(segment)
    else say(textOf(segment))
  })
  if (json) {
    printJson({ segments, log })
    return damaged + log.damage.length === 0 ? 0 : 1
  }
  for (const { file, offset, what } of log.damage) say(`DAMAGED log/${file} at byte ${offset}: ${what}`)
  damaged += log.damage.length
  say(damaged === 0 ? 'no damage' : 'stop the stream and run: tributary stream archive repair')
  return damaged === 0 ? 0 : 1
}

async function repairing({ dataDirectory, json }: ArchiveOptions): Promise<number> {
  requireArchive(dataDirectory)
  if (json) {
    printJson(await repairToJson(dataDirectory))
    return 0
  }
  let repaired = 0
  await repairArchive(dataDirectory, {
    onSegment: (segment, { rowsKept, lost }) => {
      repaired++
      say(`${textOf(segment)}\n  replaced: ${counted(rowsKept, 'row')} kept`)
      for (const { afterSeq, beforeSeq } of lost)
        say(
          `  LOST rows after seq ${afterSeq}${beforeSeq === Infinity ? '' : ` and before seq ${beforeSeq}`}`,
        )
    },
    onLog: ({ replaced, recordsKept, recordsLost }) => {
      repaired++
      say(
        `log: ${counted(replaced.length, 'file')} replaced, ${counted(recordsKept, 'record')} kept, ${recordsLost} lost`,
      )
    },
    onMarked: (accounts) => {
      if (repaired === 0) say('no damage: nothing was changed')
      else say(`marked as incomplete: ${counted(accounts, 'account')}`)
    },
  })
  return 0
}

function requireArchive(dataDirectory: string): void {
  if (!existsSync(join(dataDirectory, 'segments')))
    throw new FileUseError(`${dataDirectory} is no data directory of a stream`)
}

/** What was repaired. Rows that are lost without an end have no `beforeSeq`. */
async function repairToJson(dataDirectory: string): Promise<object> {
  const segments: object[] = []
  const done: { log?: object; markedAccounts?: number } = {}
  await repairArchive(dataDirectory, {
    onSegment: (segment, { rowsKept, lost }) => {
      const ranges = lost.map(({ afterSeq, beforeSeq }) =>
        beforeSeq === Infinity ? { afterSeq } : { afterSeq, beforeSeq },
      )
      segments.push({ ...segment, rowsKept, lost: ranges })
    },
    onLog: (log) => (done.log = log),
    onMarked: (accounts) => (done.markedAccounts = accounts),
  })
  return { segments, ...done }
}

function textOf({ name, isSealed, rows, firstSeq, lastSeq, damage }: Segment): string {
  const seqs = lastSeq === 0 ? 'no rows' : `seq ${firstSeq} to ${lastSeq}  ${counted(rows, 'row')}`
  const head = `${name}  ${seqs}${isSealed ? '' : '  not sealed'}`
  return [head, ...damage.map((what) => `DAMAGED ${name}: ${what}`)].join('\n')
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
