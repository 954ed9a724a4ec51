/**
 * Plays scripts of the simulator of the relay.
 *
 *     npm run campaign -- simulator --seeds 100000
 *     npm run campaign -- simulator --seed 770 --seeds 1
 *     npm run campaign -- simulator --script failed.jsonl
 */
import { runCampaign } from '@tributary/testkit/simulation'
import { scriptOf } from './simulator/script.ts'
import { play } from './simulator/simulation.ts'

await runCampaign({ file: import.meta.filename, scriptOf, play })
