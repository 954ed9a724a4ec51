/**
 * Plays scripts of the simulator of the stream.
 *
 *     npm run campaign -- stream-simulator --seeds 10000
 *     npm run campaign -- stream-simulator --seed 770 --seeds 1
 *     npm run campaign -- stream-simulator --script failed.jsonl
 */
import { runCampaign } from '@tributary/testkit/simulation'
import { scriptOf } from './simulator/script.ts'
import { play } from './simulator/simulation.ts'

await runCampaign({ file: import.meta.filename, scriptOf, play })
