import { createProgram } from './program.ts'

// Whoever reads our output may leave (`| head`). Commands notice when they write; services go on without a reader.
for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined)
await createProgram().parseAsync()
