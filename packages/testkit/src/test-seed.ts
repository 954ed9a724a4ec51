/** The seed of a random test: that of the variable SEED, to run a failure again, or a new one. */
export function testSeed(): number {
  return Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 32))
}
