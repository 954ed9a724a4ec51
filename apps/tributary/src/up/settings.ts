import { defineSettings, flag, integer, list, path, type SettingsOf, text, url } from '@tributary/settings'

const didPattern = /did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]/

/** Everything that `tributary up` hands to the services it runs. */
export const upSettings = defineSettings('TRIBUTARY_UP', {
  dataDirectory: path({ default: 'data', doc: 'Where all services keep their data.' }),
  plcUrl: url({ default: 'https://plc.directory', doc: 'PLC directory that identities are read from.' }),
  sources: list({
    doc: 'PDSs to subscribe to. Remembered: one that was given once stays.',
    pattern: /(?:[a-z]+:\/\/)?[a-zA-Z0-9._:[\]-]+\/?/,
    form: 'host names',
  }),
  labelers: list({
    pattern: /did:(?:plc|web):[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]/,
    form: 'did:plc or did:web identifiers',
    doc: 'Labelers whose labels rate organizations in the feed.',
  }),
  allowedPrivateHosts: list({
    doc: 'PDSs and labelers that may be on private addresses, without TLS, on any port. The PLC directory may be so anyhow.',
    form: 'host names, with a port unless it is the usual one',
  }),
  dev: flag({
    doc: 'For development: hosts on this machine (localhost, 127.0.0.1, [::1]) are such hosts, on every port. Not with another --host or a proxy.',
  }),
  handleHosts: list({
    pattern: /[a-z0-9.-]+=https?:\/\/[^,]+/,
    form: 'domain=url',
    doc: 'For local networks: who answers for the handles below a domain. All others are proven by DNS or HTTPS.',
  }),
  trustedProxies: list({
    doc: 'Proxies in front of relay, stream and feed whose X-Forwarded-For is believed.',
    form: 'IP addresses or networks',
  }),
  feedServiceDid: text({
    default: 'did:web:localhost',
    pattern: didPattern,
    form: 'a DID',
    doc: 'The DID that callers of the feed name in their tokens. Tokens for another one are refused.',
  }),
  databaseUrl: text({
    isSecret: true,
    pattern: /postgres(?:ql)?:\/\/.+/,
    form: 'postgres://user:password@host/database',
    doc: 'A PostgreSQL database for index and feed, in place of a file in the data directory.',
  }),
  feedRequestsPerMinute: integer({
    default: 60,
    max: 1_000_000,
    doc: 'Calls of the feed a minute that one client address may make; 0 for no limit.',
  }),
  host: text({ default: '127.0.0.1', doc: 'Address that the services listen on.' }),
  relayPort: integer({ default: 2470, min: 1, max: 65_535, doc: 'Port of the relay.' }),
  streamPort: integer({ default: 2480, min: 1, max: 65_535, doc: 'Port of the stream.' }),
  indexPort: integer({ default: 2482, min: 1, max: 65_535, doc: "Port of the index's health and metrics." }),
  feedPort: integer({ default: 2484, min: 1, max: 65_535, doc: 'Port of the feed.' }),
})

export type UpSettings = SettingsOf<typeof upSettings>
