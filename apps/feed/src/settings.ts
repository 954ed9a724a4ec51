import { defineSettings, integer, list, path, text, url, type SettingsOf } from '@tributary/settings'

const didPattern = /did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]/

/** Settings of the feed service (feed.md section 13). */
export const feedSettings = defineSettings(
  'TRIBUTARY_FEED',
  {
    port: integer({ default: 2484, max: 65_535, doc: 'Public listener. 0 takes a free port.' }),
    host: text({ default: '127.0.0.1', doc: 'Address that the public listener binds to.' }),
    databasePath: path({
      default: 'data/index.sqlite',
      doc: 'The database that the index service writes. It is only read.',
    }),
    databaseUrl: text({
      isSecret: true,
      pattern: /postgres(?:ql)?:\/\/.+/,
      form: 'postgres://user:password@host/database',
      doc: 'The PostgreSQL database that the index service writes, or a replica of it, in place of the file.',
    }),
    usedTokensPath: path({
      doc: 'SQLite file with the tokens that were used. Without it, feed-used-tokens.sqlite beside the database.',
    }),
    usedTokensUrl: text({
      isSecret: true,
      pattern: /postgres(?:ql)?:\/\/.+/,
      form: 'postgres://user:password@host/database',
      doc: 'A PostgreSQL database for them in place of the file, shared by all replicas of the feed. No read replica.',
    }),
    serviceDid: text({
      required: true,
      pattern: didPattern,
      form: 'a DID without a fragment',
      doc: 'DID of this service, the audience of its tokens. A did:web of a host name alone is served as a document too.',
    }),
    labelers: list({
      pattern: didPattern,
      form: 'DIDs',
      doc: 'Labelers whose labels rate organizations. With none, every organization is unrated.',
    }),
    plcUrl: url({ default: 'https://plc.directory', doc: 'PLC directory, for the keys of callers.' }),
    allowedPrivateHosts: list({
      form: 'host names or host:port',
      doc: 'Hosts that DID documents may be loaded from although they are private, without TLS or on a port of their own.',
    }),
    maxTokenAgeSeconds: integer({
      default: 300,
      min: 1,
      max: 3600,
      doc: 'How far from now a token may expire or have been issued.',
    }),
    tokensPerIssuer: integer({
      default: 512,
      min: 1,
      max: 1_000_000,
      doc: 'Spent tokens of one issuer that are remembered until they expire. Beyond that its next ones are answered with 503.',
    }),
    tokensPerNetwork: integer({
      default: 4096,
      min: 1,
      max: 1_000_000,
      doc: 'The same for one client address, or one IPv6 /48.',
    }),
    tokensMax: integer({
      default: 16_384,
      min: 1,
      max: 1_000_000,
      doc: 'The same for all together. One network has half of it at most.',
    }),
    didDocumentMs: integer({
      default: 2000,
      min: 100,
      max: 60_000,
      doc: 'Time to load the DID document of a caller.',
    }),
    queryMs: integer({
      default: 5000,
      min: 100,
      max: 60_000,
      doc: 'Time to read a page from the index, with the wait for its turn. A page that takes longer is answered with 500.',
    }),
    requestsPerMinute: integer({
      default: 60,
      max: 1_000_000,
      doc: 'Calls a minute of one client address, or of one IPv6 /64. 0 for no limit, if a proxy in front has one.',
    }),
    requestBurst: integer({ default: 20, min: 1, max: 1_000_000, doc: 'How many of them may come at once.' }),
    trustedProxies: list({ doc: 'Addresses of proxies whose X-Forwarded-For is believed.' }),
    requestMs: integer({
      default: 10_000,
      min: 100,
      max: 120_000,
      doc: 'Time for a request to arrive whole.',
    }),
    metricsPort: integer({ max: 65_535, doc: 'Private listener for metrics. Without it there is none.' }),
    metricsHost: text({ default: '127.0.0.1', doc: 'Address that the private listener binds to.' }),
  },
  [['usedTokensPath', 'usedTokensUrl']],
)

export type FeedSettings = SettingsOf<typeof feedSettings>
