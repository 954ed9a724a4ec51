import { exitCodes } from './exit-codes.ts'
import { systemMessage } from './system-message.ts'
import { createProgram } from './program.ts'
import { hasLeft } from './read/standard-output.ts'

// The reader of our output may leave (`| head`). Commands notice when they write; services go on without a reader.
for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined)
process.on('exit', (code) => {
  const { errored } = process.stdout
  if (!errored || hasLeft(errored) || code === exitCodes.io) return
  process.stderr.write(`tributary: the output is not whole: ${systemMessage(errored) ?? errored.message}\n`)
  process.exitCode = exitCodes.io
})
try {
  await createProgram().parseAsync()
} catch (error) {
  // A file or folder that cannot be used is the caller's to put right; where in our code it was met does not help.
  const message = systemMessage(error)
  if (message === undefined) throw error
  process.stderr.write(`tributary: ${message}\n`)
  process.exit(exitCodes.io)
}
