/** `tributary verify --repo`: checks the repository of an account, and what a stream has of it. */
import { isDid } from '@tributary/protocol'
import { UsageError } from '../command-errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { printJson } from '../print-json.ts'
import { stopSignal } from '../stop-signal.ts'
import { networkOf, type NetworkOptions } from './network.ts'
import { checkRepo, type RepoReport } from './repo-check.ts'
import { reportError } from './report-error.ts'
import { reportText, withoutCoverage } from './report-text.ts'
import { StreamArchive } from './stream-archive.ts'

export interface VerifyRepoOptions extends NetworkOptions {
  repo: string
  /** Address of a stream. */
  archive?: string
  apiKeyFile?: string
  json: boolean
}

/** Returns the exit code: 1 when something is wrong, or when there is nothing that could be checked. */
export async function runVerifyRepo(options: VerifyRepoOptions): Promise<number> {
  const signal = stopSignal()
  try {
    const { repo: did, archive: url, apiKeyFile, json } = options
    if (!isDid(did)) throw new UsageError(`${did} is no DID`)
    const archive = url === undefined ? undefined : await StreamArchive.open({ url, apiKeyFile, signal })
    const report = await checkRepo(did, { ...networkOf(options, signal), archive, signal })
    if (json) printJson(report)
    else process.stdout.write(reportText(report))
    if (archive && !archive.coverage && !json) process.stderr.write(withoutCoverage)
    return codeOf(report, archive !== undefined)
  } catch (error) {
    return reportError(error, signal)
  }
}

function codeOf({ state, faultCount }: RepoReport, isCompared: boolean): number {
  if (state === 'unknown') return exitCodes.noAnswer
  return faultCount > 0 || (state === 'away' && !isCompared) ? exitCodes.failed : exitCodes.done
}
