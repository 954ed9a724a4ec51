import type { Did } from '@tributary/protocol'
import { counted } from '../counted.ts'
import { networkOf, type NetworkOptions } from './network.ts'
import { checkRepo, type RepoReport } from './repo-check.ts'
import { reportText, withoutCoverage } from './report-text.ts'
import { StreamArchive } from './stream-archive.ts'

export interface CheckAccountsOptions extends NetworkOptions {
  archive: string
  apiKeyFile?: string
  json: boolean
}

/**
 * Compares accounts of a stream with their hosts, one after the other, and tells of each as it goes unless the answer is to
 * be JSON.
 * @throws what reading the stream throws, and what an abort throws.
 */
export async function checkAccounts(
  dids: readonly Did[],
  options: CheckAccountsOptions,
  signal: AbortSignal,
): Promise<RepoReport[]> {
  const { archive: url, apiKeyFile, json } = options
  const archive = await StreamArchive.open({ url, apiKeyFile, signal })
  const network = networkOf(options, signal)
  const reports: RepoReport[] = []
  for (const did of dids) {
    const report = await checkRepo(did, { ...network, archive, signal })
    reports.push(report)
    if (!json) process.stdout.write(reportText(report))
  }
  if (!json) process.stdout.write(sumText(reports))
  if (!json && !archive.coverage) process.stderr.write(withoutCoverage)
  return reports
}

function sumText(reports: readonly RepoReport[]): string {
  const faults = reports.reduce((sum, { faultCount }) => sum + faultCount, 0)
  const unknown = reports.filter(({ state }) => state === 'unknown').length
  const words = [
    `${counted(reports.length, 'account')} compared with their hosts: ${faults === 0 ? 'no faults' : counted(faults, 'fault')}`,
    ...(unknown > 0 ? [`${unknown} not checked`] : []),
  ]
  return `${words.join(', ')}\n`
}
