/**
 * The limits of a relay, each declared once: name, default, range, meaning. The settings seed them on an empty data
 * directory. Afterwards they are stored, and operators change them while the relay runs (`updateSettings`).
 */
import { choice, integer, list, type Setting } from '@tributary/settings'

/** A host name with an optional port, or a suffix. */
const hostPattern = /^(\*\.)?[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:\d{1,5})?$/

export const limitSettings = {
  admission: choice(['approved', 'open'], {
    default: 'approved',
    doc: 'open lets a crawl request admit a new PDS. This and the next settings are for an empty data directory; later they are changed through the operator API.',
  }),
  crawlRequests: choice(['on', 'off'], {
    default: 'on',
    doc: 'off refuses every crawl request.',
  }),
  accountQuota: integer({
    default: 100,
    max: 100_000_000,
    doc: 'Accounts that may be active at a time on one source.',
  }),
  newSourcesPerDay: integer({ default: 50, max: 1_000_000, doc: 'New sources in any 24 hours.' }),
  sourceEventsPerSecond: integer({
    default: 5000,
    min: 1,
    max: 1_000_000,
    doc: 'Messages read in a second from one source. More wait at the source.',
  }),
  sourceEventsPerHour: integer({
    default: 0,
    max: 1_000_000_000,
    doc: 'Messages read in any hour from one source, beside one for each account of its quota. More wait at the source. 0: no such limit; 2,500 is usual where anybody may add sources.',
  }),
  sourceEventsPerDay: integer({
    default: 0,
    max: 1_000_000_000,
    doc: 'Messages read in any 24 hours from one source, beside ten for each account of its quota. 0: no such limit; 20,000 is usual where anybody may add sources.',
  }),
  eventsPerSecond: integer({
    default: 1_000_000,
    min: 1,
    max: 1_000_000,
    doc: 'Messages read in a second from all sources together.',
  }),
  trustedHosts: list({
    doc: 'Hosts that have wide limits when they are added, as host or *.suffix: 10,000,000 accounts, and 5,000 messages a second, 50,000,000 an hour, 500,000,000 a day.',
    form: 'host names, or *.suffix for all below one',
    pattern: hostPattern,
  }),
  diskFreeMbMin: integer({
    default: 1000,
    max: 1_000_000_000,
    doc: 'Megabytes of free disk below which sources are not read. 0 turns it off.',
  }),
}

export type RelayLimits = {
  readonly [N in keyof typeof limitSettings]: (typeof limitSettings)[N] extends Setting<infer T> ? T : never
}

/** Returns only the limits among the values of settings, or of a change. */
export function limitsOf<V extends Partial<RelayLimits>>(values: V): Pick<V, keyof V & keyof RelayLimits> {
  const limits = Object.entries(values).filter(([name]) => Object.hasOwn(limitSettings, name))
  return Object.fromEntries(limits) as Pick<V, keyof V & keyof RelayLimits> // these names are left
}

/** Whether a text can be one of `trustedHosts`. */
export function isHostPattern(text: string): boolean {
  return hostPattern.test(text)
}
