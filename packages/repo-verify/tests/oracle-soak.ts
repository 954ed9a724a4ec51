/** The comparison with the reference implementation at length: `node oracle-soak.ts [commits] [seed]`. */
import { argv, stdout } from 'node:process'
import { checkAgainstOracle } from './oracle-run.ts'

const commits = Number(argv[2] ?? 10_000)
const seed = Number(argv[3] ?? Date.now() % 2 ** 32)
stdout.write(`${commits} commits, seed ${seed}\n`)
const { operations } = await checkAgainstOracle({
  commits,
  seed,
  sizes: [0, 10, 300, 3000, 20_000],
  writesMax: 20,
})
stdout.write(`${operations} operations verified\n`)
