/**
 * npm run bench: the real processes under the recorded load, beside what other programs and stock parts cost.
 * CPU seconds are those of the process under test alone, from the kernel; load, readers and references are other
 * processes. Figures are printed as they come; nothing here passes or fails.
 */
import { readArguments, usage } from './lib/arguments.ts'
import { openBench } from './lib/bench.ts'
import { describeMachine, fdatasyncMs, k256VerifyMicros } from './lib/machine.ts'
import { describeProfiles } from './lib/profile.ts'
import { reportOf } from './lib/report.ts'
import { raisedLimits } from './lib/services.ts'
import { furtherScenarios, scenarios } from './scenarios/index.ts'

const names = { standard: [...scenarios.keys()], further: [...furtherScenarios.keys()] }

async function main(): Promise<void> {
  const args = readArguments(process.argv.slice(2), names)
  if ('problem' in args) {
    console.error(`${args.problem}\n\n${usage(names)}`)
    process.exitCode = 1
    return
  }
  if (args.wantsHelp) {
    console.log(usage(names))
    return
  }
  const machine = describeMachine()
  using bench = await openBench(args, k256VerifyMicros())
  const sync = fdatasyncMs(bench.newDirectory('sync'))
  machine.push(
    `K-256 verification ${bench.k256Micros.toFixed(1)} µs; fdatasync of 16 kB p50 ${sync.p50.toFixed(2)} ms, p99 ${sync.p99.toFixed(2)} ms`,
    `load: ${bench.load.parameters.commits} commits by ${bench.load.parameters.accounts} accounts`,
    raisedLimits,
    'a tenth of the load comes first at 2,000 a second, so that accounts are known before anything is measured',
    '"2.0×" beside a reference: twice as good as it',
  )
  console.log(`${machine.join('\n')}\n`)
  for (const name of args.scenarios) {
    bench.say(name)
    const run = scenarios.get(name) ?? furtherScenarios.get(name)
    if (run === undefined) continue
    try {
      console.log(reportOf(name, await run(bench)))
    } catch (error) {
      // What the others cost is still worth knowing.
      console.error(`${name} could not be measured:`, error)
      process.exitCode = 1
    }
  }
  if (args.profileDirectory !== undefined) console.log(describeProfiles(args.profileDirectory))
}

// A run that is interrupted must run its exit handlers, which stop the processes and remove the files.
process.once('SIGINT', () => process.exit(130))
process.once('SIGTERM', () => process.exit(143))
await main()
