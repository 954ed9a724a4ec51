/**
 * Plays scripts of the simulator of the index.
 *
 *     npm run campaign -- index-simulator --seeds 10000
 *     npm run campaign -- index-simulator --seconds 600
 *     npm run campaign -- index-simulator --seed 770 --seeds 1
 *     npm run campaign -- index-simulator --script failed.jsonl
 */
import { runCampaign } from '@tributary/testkit/simulation'
import { scriptOf } from './simulator/script.ts'
import { play } from './simulator/simulation.ts'

await runCampaign({ file: import.meta.filename, scriptOf, play })
