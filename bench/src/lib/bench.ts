/** What every scenario is given: the load, a folder of the disk that is measured, and how much time it may take. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createLoad, measuredLoad, type LoadInfo, type LoadParameters } from '@tributary/testkit'
import type { Figure } from './figure.ts'

/** Commits per account of the measured load, which decide how large the trees are. */
const commitsPerAccount = measuredLoad.commits / measuredLoad.accounts
const quickCommits = 30_000
const cacheDirectory = join(import.meta.dirname, '..', '..', '..', '.cache', 'bench')

/** How long the parts of scenarios take. */
export interface Effort {
  /** Commits that the stock parts are given, which take about 3 ms each. */
  stockCommits: number
  /** Seconds at a fixed rate, for each number of readers. */
  phaseSeconds: number
  /** Seconds at the rate at which delays are measured: a p99 needs events. */
  delaySeconds: number
  /** Seconds of silence before memory is read. */
  quietSeconds: number
  idleReaders: number
  /** Numbers of readers that each have a filter of their own. */
  filteredReaders: readonly number[]
  /** Readers whose filter lets nothing through. */
  readersOfNothing: number
  /** That a relay has never heard of. */
  newAccounts: number
  /** In the index that pages are read from. */
  feedEntries: number
  feedRequests: number
  /** In the index of which viewers follow up to 50,000 accounts. */
  followedRecords: number
  /** For each page of these viewers. */
  followedRequests: number
  /** In the archive that an index is made from. */
  indexedRows: number
  /** That change at once, and the records of each. */
  changedAccounts: number
  recordsEach: number
}

const efforts = {
  full: {
    stockCommits: 10_000,
    phaseSeconds: 10,
    delaySeconds: 20,
    quietSeconds: 30,
    idleReaders: 1000,
    filteredReaders: [300, 1000],
    readersOfNothing: 5000,
    newAccounts: 20_000,
    feedEntries: 500_000,
    feedRequests: 3000,
    followedRecords: 10_000_000,
    followedRequests: 1000,
    indexedRows: 2_000_000,
    changedAccounts: 200,
    recordsEach: 10_000,
  },
  quick: {
    stockCommits: 600,
    phaseSeconds: 3,
    delaySeconds: 4,
    quietSeconds: 5,
    idleReaders: 1000,
    filteredReaders: [300],
    readersOfNothing: 1000,
    newAccounts: 3000,
    feedEntries: 50_000,
    feedRequests: 300,
    followedRecords: 200_000,
    followedRequests: 100,
    indexedRows: 200_000,
    changedAccounts: 20,
    recordsEach: 5000,
  },
} as const satisfies Record<string, Effort>

export interface BenchOptions {
  isQuick: boolean
  /** Size of the load. Default that of the published measurements, or a fifth in quick mode. */
  commits?: number | undefined
  records?: number | undefined
  /** Where CPU profiles of the processes under test go; none are taken without it. */
  profileDirectory?: string | undefined
}

export interface Bench extends Disposable {
  readonly effort: Effort
  /** The load, and its path for the testkit. */
  readonly load: LoadInfo
  readonly loadFile: string
  /** Microseconds that one K-256 verification takes here, in this run. */
  readonly k256Micros: number
  readonly profileDirectory: string | undefined
  /** Makes another load, unless an earlier run has left it. */
  makeLoad(size: LoadSize): Promise<{ file: string; info: LoadInfo }>
  /** On the disk that is measured; gone when the run ends. */
  newDirectory(name: string): string
  /** Progress, for whoever waits. */
  say(text: string): void
}

type LoadSize = Pick<LoadParameters, 'accounts' | 'commits'>

export type Scenario = (bench: Bench) => Promise<Figure[]>

/** Makes the load unless an earlier run has left it. */
export async function openBench(options: BenchOptions, k256Micros: number): Promise<Bench> {
  const { isQuick, profileDirectory, commits = isQuick ? quickCommits : measuredLoad.commits } = options
  const effort = isQuick ? efforts.quick : efforts.full
  const accounts = Math.max(1, Math.round(commits / commitsPerAccount))
  mkdirSync(cacheDirectory, { recursive: true })
  const say = (text: string): void => console.error(`bench: ${text}`)
  const makeLoad = async (size: LoadSize): Promise<{ file: string; info: LoadInfo }> => {
    const file = join(cacheDirectory, `load-${size.accounts}-${size.commits}`)
    say(`load of ${size.commits} commits by ${size.accounts} accounts (made on the first run)`)
    return { file, info: await createLoad({ file, ...size }) }
  }
  const { file: loadFile, info: load } = await makeLoad({ accounts, commits })
  const directory = mkdtempSync(join(cacheDirectory, 'run-'))
  const remove = (): void => rmSync(directory, { recursive: true, force: true })
  process.once('exit', remove)
  return {
    effort: { ...effort, followedRecords: options.records ?? effort.followedRecords },
    load,
    loadFile,
    k256Micros,
    profileDirectory,
    makeLoad,
    newDirectory: (name) => mkdtempSync(join(directory, `${name}-`)),
    say,
    [Symbol.dispose]: remove,
  }
}
