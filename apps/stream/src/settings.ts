import { watchedCollections } from '@tributary/protocol'
import {
  choice,
  defineSettings,
  integer,
  list,
  path,
  secretFile,
  type SettingsOf,
  text,
  url,
} from '@tributary/settings'

export const streamSettings = defineSettings('TRIBUTARY_STREAM', {
  host: text({ default: '127.0.0.1', doc: 'Address to listen on.' }),
  port: integer({ default: 2480, min: 0, max: 65_535, doc: 'Port to listen on. 0 takes a free one.' }),
  dataDirectory: path({ default: './data/stream', doc: 'Where the archive and the state are kept.' }),
  relayUrl: url({
    default: 'ws://127.0.0.1:2470',
    schemes: ['ws', 'wss'],
    doc: 'The relay to read, or any other server of com.atproto.sync.subscribeRepos. Another relay is read from its oldest event.',
  }),
  verify: choice(['full', 'off'], {
    default: 'full',
    doc: 'Whether signatures, operations and chains are checked, or the relay is trusted with that.',
  }),
  workers: integer({ default: 1, min: 1, max: 64, doc: 'Most threads that verify.' }),
  collections: list({
    default: watchedCollections,
    pattern: /[a-zA-Z][a-zA-Z0-9-]*(\.[a-zA-Z0-9-]+){2,}/,
    form: 'NSIDs',
    doc: 'Collections that a new data directory starts to watch. An existing one keeps its own, and a start logs how they differ.',
  }),
  plcUrl: url({
    default: 'https://plc.directory',
    doc: 'The PLC directory that did:plc accounts are resolved at.',
  }),
  allowedPrivateHosts: list({
    doc: 'Hosts, as host or host:port, that may be fetched from though they are private addresses or without TLS.',
  }),
  compat: choice(['on', 'off'], {
    default: 'on',
    doc: 'Whether live stream and archive answer under the names of Jetstream v2, network.bsky.jetstream.*, too, and the live stream as Jetstream v1 at /subscribe.',
  }),
  backfill: choice(['on', 'off'], {
    default: 'on',
    doc: 'Whether repositories are read from the PDSs of the relay, where its events did not bring everything.',
  }),
  backfillRequestsPerSecond: integer({
    default: 5,
    min: 1,
    max: 1000,
    doc: 'How often a backfill asks one PDS. A PDS that says so with Retry-After is asked less.',
  }),
  backfillSettleSeconds: integer({
    default: 60,
    max: 86_400,
    doc: 'How long a backfill waits for events of an account before it takes the repository in their place.',
  }),
  apiKeys: list({
    pattern: /[^:,]{1,64}:[\x21-\x2b\x2d-\x7e]{16,256}/,
    form: 'owner:key pairs, keys of 16 to 256 characters without spaces; `openssl rand -hex 16` makes one',
    isSecret: true,
    doc: 'API keys of the archive, beside those that the operator creates while it runs. A key that is left out is refused from the next start on.',
  }),
  operatorToken: secretFile({
    doc: 'File with the operator token. Without it the operator methods are off.',
  }),
  lookBackHours: integer({
    default: 36,
    max: 8760,
    doc: 'How far back a cursor may reach; further back is for the archive methods. 0: subscribers always start live.',
  }),
  segmentMegabytesMax: integer({ default: 256, min: 1, max: 1024, doc: 'A segment is sealed at this size.' }),
  segmentAgeHoursMax: integer({ default: 24, min: 1, max: 8760, doc: 'A segment is sealed at this age.' }),
  compactionHours: integer({
    default: 4,
    max: 8760,
    doc: 'How often rows that later ones supersede are taken out of sealed segments. 0: only when the operator asks.',
  }),
  compactionMegabytesPerSecond: integer({
    default: 20,
    min: 1,
    max: 10_000,
    doc: 'How fast segments are read to be compacted.',
  }),
  segmentCacheSeconds: integer({
    default: 0,
    max: 86_400,
    doc: 'How long caches may serve segments without asking again, and so without looking at the key. 0: they ask every time.',
  }),
  diskFreeMegabytesMin: integer({
    default: 1000,
    max: 1_000_000_000,
    doc: 'Megabytes of free disk below which the relay is not read and no repository is archived. What there is is served all the same. 0 turns it off.',
  }),
  tailMegabytes: integer({
    default: 64,
    min: 1,
    max: 65_536,
    doc: 'Memory for the newest events, ready to send.',
  }),
  blockCacheMegabytes: integer({
    default: 64,
    min: 1,
    max: 65_536,
    doc: 'Memory for blocks that readers are in.',
  }),
  subscribersMax: integer({ default: 10_000, min: 1, max: 100_000, doc: 'Most subscribers at a time.' }),
  subscribersPerAddressMax: integer({
    default: 1000,
    min: 1,
    max: 100_000,
    doc: 'Most subscribers at a time from one address.',
  }),
  subscriberLagMax: integer({
    default: 0,
    max: 1_000_000_000,
    doc: 'How many seqs a subscriber may be behind without coming closer; then it is disconnected with ConsumerTooSlow. 0: any number.',
  }),
  trustedProxies: list({
    doc: 'Addresses or networks of reverse proxies whose X-Forwarded-For is believed.',
  }),
})

export type StreamSettings = SettingsOf<typeof streamSettings>
