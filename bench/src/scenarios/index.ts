import type { Scenario } from '../lib/bench.ts'
import { backfill } from './backfill.ts'
import { client } from './client.ts'
import { delay } from './delay.ts'
import { dictionaryFrames } from './dictionary-frames.ts'
import { fanout, fanoutFast, fanoutMany } from './fanout.ts'
import { feedPages } from './feed-pages.ts'
import { firstContact } from './first-contact.ts'
import { knownAccounts } from './known-accounts.ts'
import { memory, memoryMany } from './memory.ts'
import { relayIngest, relaySources } from './relay-ingest.ts'
import { replay } from './replay.ts'
import { streamIngest } from './stream-ingest.ts'

/** What runs when nothing is named, in this order. */
export const scenarios: ReadonlyMap<string, Scenario> = new Map<string, Scenario>([
  ['relay-ingest', relayIngest],
  ['stream-ingest', streamIngest],
  ['fanout', fanout],
  ['delay', delay],
  ['memory', memory],
  ['backfill', backfill],
  ['feed', feedPages],
])

/** What runs only when it is named. */
export const furtherScenarios: ReadonlyMap<string, Scenario> = new Map<string, Scenario>([
  ['client', client],
  ['dictionary-frames', dictionaryFrames],
  ['relay-sources', relaySources],
  ['first-contact', firstContact],
  ['known-accounts', knownAccounts],
  ['fanout-fast', fanoutFast],
  ['fanout-many', fanoutMany],
  ['memory-many', memoryMany],
  ['replay', replay],
])
