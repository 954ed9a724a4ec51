import type { Scenario } from '../lib/bench.ts'
import { accountChanges } from './account-changes.ts'
import { backfill } from './backfill.ts'
import { blockDecode } from './block-decode.ts'
import { client } from './client.ts'
import { clientLive } from './client-live.ts'
import { compaction } from './compaction.ts'
import { delay } from './delay.ts'
import { dictionaryFrames } from './dictionary-frames.ts'
import { fanout, fanoutFast, fanoutMany } from './fanout.ts'
import { fanoutFilters } from './fanout-filters.ts'
import { fanoutNothing } from './fanout-nothing.ts'
import { feedFollows } from './feed-follows.ts'
import { feedPages } from './feed-pages.ts'
import { firstContact } from './first-contact.ts'
import { indexing } from './indexing.ts'
import { knownAccounts } from './known-accounts.ts'
import { memory, memoryMany } from './memory.ts'
import { plans } from './plans.ts'
import { relayIngest, relaySources } from './relay-ingest.ts'
import { replay } from './replay.ts'
import { streamIngest } from './stream-ingest.ts'
import { streamStart } from './stream-start.ts'

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
  ['account-changes', accountChanges],
  ['block-decode', blockDecode],
  ['client', client],
  ['client-live', clientLive],
  ['compaction', compaction],
  ['dictionary-frames', dictionaryFrames],
  ['indexing', indexing],
  ['relay-sources', relaySources],
  ['feed-follows', feedFollows],
  ['first-contact', firstContact],
  ['known-accounts', knownAccounts],
  ['fanout-fast', fanoutFast],
  ['fanout-filters', fanoutFilters],
  ['fanout-many', fanoutMany],
  ['fanout-nothing', fanoutNothing],
  ['memory-many', memoryMany],
  ['plans', plans],
  ['replay', replay],
  ['stream-start', streamStart],
])
