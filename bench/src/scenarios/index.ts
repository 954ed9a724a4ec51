import type { Scenario } from '../lib/bench.ts'
import { fanout } from './fanout.ts'
import { relayIngest } from './relay-ingest.ts'
import { streamIngest } from './stream-ingest.ts'

/** All scenarios by name, in the order in which they run. */
export const scenarios: ReadonlyMap<string, Scenario> = new Map<string, Scenario>([
  ['relay-ingest', relayIngest],
  ['stream-ingest', streamIngest],
  ['fanout', fanout],
])
