import { defineSettings, integer, list, path, type SettingsOf, text, url } from '@tributary/settings'

const didPattern = /did:(?:plc|web):[a-zA-Z0-9._:%-]+/

export const indexSettings = defineSettings(
  'TRIBUTARY_INDEX',
  {
    host: text({ default: '127.0.0.1', doc: 'Address that health and metrics are served on.' }),
    port: integer({ default: 2482, max: 65_535, doc: 'Port of health and metrics; 0 takes a free one.' }),
    databasePath: path({
      default: 'data/index.sqlite',
      doc: 'The index database, made if it is not there. The feed reads the same file.',
    }),
    databaseUrl: text({
      isSecret: true,
      pattern: /postgres(?:ql)?:\/\/.+/,
      form: 'postgres://user:password@host/database',
      doc: 'A PostgreSQL database, version 15 or later, in place of the file. It must be there; its tables are made.',
    }),
    streamUrl: url({
      default: 'http://127.0.0.1:2480',
      schemes: ['http', 'https', 'ws', 'wss'],
      doc: 'The record stream to follow. It may move to another address.',
    }),
    newStreamMinutes: integer({
      default: 10,
      min: 0,
      max: 10_080,
      doc: 'How long another stream must be at the address of the stream before a rebuild from it begins by itself. 0: only when asked for.',
    }),
    streamNamespace: text({
      default: 'network.social.stream',
      doc: "The stream's methods; network.bsky.jetstream reads any Jetstream v2 server.",
    }),
    apiKey: text({ isSecret: true, doc: "Key for the stream's archive." }),
    labelers: list({
      pattern: didPattern,
      form: 'did:plc or did:web identifiers',
      itemsMax: 100,
      doc: 'Labelers whose labels rate organizations.',
    }),
    updateContentTypes: list({
      doc: 'Attachments with one of these contentTypes are updates; without any, all attachments are.',
    }),
    accountCheckHours: integer({
      default: 24,
      min: 1,
      max: 720,
      doc: "How often an account's own host is asked whether it is still active.",
    }),
    handleHosts: list({
      pattern: /[a-z0-9.-]+=https?:\/\/[^,]+/,
      form: 'domain=url',
      doc: 'For local networks: who answers for the handles below a domain. All others are proven by DNS or HTTPS.',
    }),
    plcUrl: url({ default: 'https://plc.directory', doc: 'The PLC directory.' }),
    allowedPrivateHosts: list({
      doc: 'Hosts, as host or host:port, that may be on private addresses and without TLS.',
    }),
  },
  [['databasePath', 'databaseUrl']],
)

export type IndexSettings = SettingsOf<typeof indexSettings>
