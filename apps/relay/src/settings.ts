import {
  choice,
  defineSettings,
  flag,
  integer,
  list,
  path,
  secretFile,
  text,
  url,
  type SettingsOf,
} from '@tributary/settings'
import { limitSettings } from './policy/relay-limits.ts'

export const relaySettings = defineSettings('TRIBUTARY_RELAY', {
  port: integer({
    default: 2470,
    min: 0,
    max: 65_535,
    doc: 'Port of the public listener. 0 takes a free one.',
  }),
  host: text({ default: '127.0.0.1', doc: 'Address of the public listener.' }),
  dataDirectory: path({ default: 'data/relay', doc: 'Where the event log and the state live.' }),
  plcUrl: url({
    default: 'https://plc.directory',
    doc: 'The PLC directory that did:plc identities are read from.',
  }),
  sources: list({
    doc: 'PDSs to subscribe to, as host names. At start those that the relay never had are added, without asking them whether they are PDSs and without counting them as new sources of the day. One that an operator has paused, banned or removed since stays so, and leaving one out here removes nothing.',
    pattern: /(?:[a-z]+:\/\/)?[a-zA-Z0-9._:[\]-]+\/?/,
    form: 'host names',
  }),
  allowedPrivateHosts: list({
    doc: 'Hosts, as host or host:port, that may be on private addresses, without TLS and on any port.',
  }),
  validation: choice(['strict', 'lenient'], {
    default: 'strict',
    doc: 'lenient lets commits of hosts from before Sync 1.1 pass.',
  }),
  logVisible: choice(['durable', 'written'], {
    default: 'durable',
    doc: 'When consumers see an event: after it is synced to disk, or already after it is written.',
  }),
  logRetentionHours: integer({
    default: 72,
    min: 1,
    max: 720,
    doc: 'How far back a cursor may reach, in hours in which the relay runs. Log files go when their newest event is older.',
  }),
  logRetentionBytes: integer({
    default: 0,
    doc: 'The oldest log files go, however young, when all are larger together. 0: no bound.',
  }),
  logFloorSeq: integer({
    default: 1,
    min: 1,
    // A floor is never taken back, and numbers have to stay below 2^53.
    max: 2 ** 52,
    doc: 'No event gets a lower sequence number. Raised after a backup was restored, above all that consumers have seen.',
  }),
  rebuildState: flag({
    doc: 'For one start: forget the state, fold the whole log again, and read every source from its oldest event.',
  }),
  identityWaitSeconds: integer({
    default: 3600,
    min: 1,
    max: 86_400,
    doc: 'How long events wait for the DID document of their account, before they are left out and made up for later.',
  }),
  consumerLagMax: integer({
    default: 0,
    doc: 'Events that a consumer may be behind without catching up, before it is disconnected. 0: as many as the replay window holds.',
  }),
  consumersMax: integer({
    default: 10_000,
    min: 1,
    max: 100_000,
    doc: 'Most consumers at a time.',
  }),
  consumersPerAddressMax: integer({
    default: 1000,
    min: 1,
    max: 100_000,
    doc: 'Most consumers at a time from one address.',
  }),
  workers: integer({ default: 1, min: 1, max: 64, doc: 'Threads that verify.' }),
  operatorToken: secretFile({
    doc: 'File with the operator token. Without it the operator API is off.',
  }),
  ...limitSettings,
  trustedProxies: list({ doc: 'Addresses of proxies whose X-Forwarded-For is believed.' }),
})

export type RelaySettings = SettingsOf<typeof relaySettings>
