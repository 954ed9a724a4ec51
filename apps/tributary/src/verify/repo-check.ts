/** Holds the repository of an account, as its host has it, against what a stream has of the account. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Did } from '@tributary/protocol'
import { ArchivedRepo, collectionOf } from './archived-repo.ts'
import type { HostCoverage } from './coverage.ts'
import type { HostAnswer, HostRepo, HostRepos } from './host-repos.ts'
import type { StreamArchive } from './stream-archive.ts'

/**
 * `wrong`: the repository, or an entry of it, is not what the protocol demands. `hidden` and `shown`: the stream says
 * something else of the account than its host. The others are about one record, or one event.
 */
export interface RepoFault {
  fault: 'wrong' | 'hidden' | 'shown' | 'missing' | 'extra' | 'different' | 'unreadable'
  subject: string
  detail: string
}

export interface RepoReport {
  did: Did
  host: string | undefined
  /** `unknown`: nobody who is needed gave an answer. */
  state: HostAnswer['is']
  /** Why it is not active. */
  why?: string
  rev?: string
  /** Records of the repository, and those of them that were compared. */
  records: number
  compared: number
  /** Through which seq of the stream. */
  throughSeq?: number
  /** Collections of which the stream does not claim to have everything: what it lacks of them is no fault. */
  incomplete: { collection: string; reason: string; missing: number }[]
  faultCount: number
  /** The first thousand. */
  faults: RepoFault[]
}

/** Faults that are named. Those after them are counted. */
const faultsMax = 1000
/** The wait before a second look. Each later one is twice as long, because each look fetches the repository. */
const firstWaitMs = 2000

export interface RepoCheckOptions {
  hosts: HostRepos
  /** Without one, repositories are checked alone. */
  archive?: StreamArchive | undefined
  /** For how long a difference may last that an event on its way explains: a stream trails its hosts. */
  waitMs: number
  signal: AbortSignal
}

/** @throws what reading the stream throws, and what an abort throws. */
export async function checkRepo(did: Did, options: RepoCheckOptions): Promise<RepoReport> {
  const { hosts, archive, waitMs, signal } = options
  const archived = new ArchivedRepo(did)
  const untilMs = performance.now() + waitMs
  for (let pauseMs = firstWaitMs; ; pauseMs *= 2) {
    const answer = await hosts.read(did)
    const report = reportOf(did, answer)
    if (!archive || answer.is === 'unknown' || answer.is === 'wrong') return report
    await archive.readOn(did, archived)
    report.throughSeq = archived.cursor
    if (answer.is === 'active')
      compare(report, answer.repo, archived, archive.coverage?.of(answer.host ?? ''))
    else if (!archived.isHidden && archived.size > 0)
      addFault(report, 'shown', did, `${answer.why}, and the stream shows ${archived.size} records`)
    const leftMs = untilMs - performance.now()
    if (report.faultCount === 0 || leftMs <= 0) return report
    await pause(Math.min(pauseMs, leftMs), undefined, { signal })
  }
}

function reportOf(did: Did, answer: HostAnswer): RepoReport {
  const { host, is: state } = answer
  const report: RepoReport = {
    did,
    host,
    state,
    records: 0,
    compared: 0,
    incomplete: [],
    faultCount: 0,
    faults: [],
  }
  if (answer.is === 'active') {
    const { rev, records, leftOut } = answer.repo
    Object.assign(report, { rev, records: records.size })
    for (const { key, reason } of leftOut) addFault(report, 'wrong', `at://${did}/${key}`, reason)
  } else {
    report.why = answer.why
    if (answer.is === 'wrong') addFault(report, 'wrong', did, answer.why)
  }
  return report
}

/** @param coverage what the stream claims to have of the host. Absent: it does not say. */
function compare(
  report: RepoReport,
  repo: HostRepo,
  archived: ArchivedRepo,
  coverage: HostCoverage = coverageBy(archived),
): void {
  const { did } = report
  if (archived.isHidden) {
    addFault(report, 'hidden', did, 'the stream says that the account is not active, and its host has it')
    return
  }
  report.compared = countIn(repo, (collection) => coverage.has(collection))
  const lacking = new Map<string, number>()
  for (const { kind, path, detail } of archived.differences(repo, (collection) => coverage.has(collection))) {
    const collection = collectionOf(path)
    const isExpected = kind === 'missing' && coverage.get(collection) !== undefined
    if (isExpected) lacking.set(collection, (lacking.get(collection) ?? 0) + 1)
    else addFault(report, kind, kind === 'unreadable' ? path : `at://${did}/${path}`, detail)
  }
  report.incomplete = Array.from(lacking, ([collection, missing]) => {
    return { collection, reason: coverage.get(collection) ?? '', missing }
  })
}

/** A stream that does not say what it watches has at least what it has of the account. */
function coverageBy({ collections }: ArchivedRepo): HostCoverage {
  return new Map(Array.from(collections, (collection) => [collection, undefined] as const))
}

function countIn({ records }: HostRepo, isCompared: (collection: string) => boolean): number {
  return [...records.keys()].filter((path) => isCompared(collectionOf(path))).length
}

function addFault(report: RepoReport, fault: RepoFault['fault'], subject: string, detail: string): void {
  report.faultCount++
  if (report.faults.length < faultsMax) report.faults.push({ fault, subject, detail })
}
