/** What tests of storage need, without the network that the rest of the testkit brings along. */
export { PowerDisk, PowerCutError, type PowerDiskOptions } from './power-disk.ts'
export { PowerFiles } from './power-files.ts'
export { randomFrom, type Random } from './random.ts'
export { testSeed } from './test-seed.ts'
