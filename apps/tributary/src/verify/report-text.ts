import { counted } from '../counted.ts'
import { printable } from '../operator/text-table.ts'
import type { RepoReport } from './repo-check.ts'

/** For a stream that has no `getCoverage`. */
export const withoutCoverage =
  'tributary verify: the stream does not say what it watches: collections that it has nothing of were not compared\n'

/** What was found of a repository, for people. */
export function reportText(report: RepoReport): string {
  const { did, host, faults, faultCount, incomplete } = report
  const lines = [
    `${did} at ${host ?? 'no host'}: ${stateText(report)}`,
    ...faults.map(({ fault, subject, detail }) => `${fault.toUpperCase()} ${subject}: ${detail}`),
    ...(faultCount > faults.length ? [`and ${counted(faultCount - faults.length, 'more fault')}`] : []),
    ...incomplete.map(
      ({ collection, reason, missing }) =>
        `not there yet: ${counted(missing, 'record')} of ${collection} (${reason})`,
    ),
  ]
  // What hosts and streams write must not reach the terminal as commands.
  return lines.map((line) => `${printable(line)}\n`).join('')
}

function stateText({ state, why, rev, records, compared, throughSeq, faultCount }: RepoReport): string {
  const faults = faultCount === 0 ? 'no faults' : counted(faultCount, 'fault')
  if (state === 'unknown') return `not checked: ${why}`
  if (state === 'wrong') return faults
  const compare = throughSeq === undefined ? '' : ` compared with the stream through seq ${throughSeq}`
  if (state === 'away') return `${why}${compare && `,${compare}`}: ${faults}`
  const share = compare === '' || compared === records ? '' : ` ${compared} of them`
  return `rev ${rev}, ${counted(records, 'record')},${share}${compare || ' signature and tree checked'}: ${faults}`
}
