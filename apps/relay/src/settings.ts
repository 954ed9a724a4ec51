import { choice, defineSettings, flag, integer, list, path, text, url, type SettingsOf } from '@tributary/settings'

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
    doc: 'PDSs to subscribe to, as host names. Those that are not known yet are added at start; none is ever removed.',
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
    doc: 'How far back a cursor may reach. Log files go when their newest event is older.',
  }),
  logRetentionBytes: integer({
    default: 0,
    doc: 'The oldest log files go, however young, when all are larger together. 0: no bound.',
  }),
  logFloorSeq: integer({
    default: 1,
    min: 1,
    max: Number.MAX_SAFE_INTEGER,
    doc: 'No event gets a lower sequence number. Raised after a backup was restored, above all that consumers have seen.',
  }),
  rebuildState: flag({
    doc: 'For one start: forget the state, fold the whole log again, and read every source from its oldest event.',
  }),
  workers: integer({ default: 1, min: 1, max: 64, doc: 'Threads that verify.' }),
  trustedProxies: list({ doc: 'Addresses of proxies whose X-Forwarded-For is believed.' }),
})

export type RelaySettings = SettingsOf<typeof relaySettings>
