import { defineSettings, flag, integer, type SettingsOf } from '@tributary/settings'

export const demoSettings = defineSettings('TRIBUTARY_DEMO', {
  once: flag({
    doc: 'Write a fixed set of records, check that everything arrived, print a summary, and end.',
  }),
  networkOnly: flag({
    doc: 'Only the network: accounts, records and addresses, for services that are started elsewhere. Not with --once.',
  }),
  deadlineSeconds: integer({
    default: 60,
    min: 5,
    max: 3600,
    doc: 'With --once: fail when not everything has arrived by then.',
  }),
  writesPerSecond: integer({
    default: 3,
    min: 1,
    max: 50,
    doc: 'Without --once and --network-only: how fast records are written.',
  }),
})

export type DemoSettings = SettingsOf<typeof demoSettings>
