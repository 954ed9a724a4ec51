import type { Scenario } from '../lib/bench.ts'
import { relayIngest } from './relay-ingest.ts'

/** All scenarios by name, in the order in which they run. */
export const scenarios: ReadonlyMap<string, Scenario> = new Map<string, Scenario>([
  ['relay-ingest', relayIngest],
])
