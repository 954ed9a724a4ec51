/** What an operator decided about one source. */
export interface SourcePolicy {
  /** `paused` and `removed` sources keep their accounts and position; a removed one is no longer shown to the public. */
  desired: DesiredState
  /** Another relay forwards accounts of many hosts: neither host authority nor an account quota applies to it. */
  kind: 'pds' | 'relay'
  /** Decided by the trusted patterns when it was added: other default limits. */
  isTrusted: boolean
  /** Undefined: as the relay's setting says. */
  validation: 'strict' | 'lenient' | undefined
  /** Accounts that may be active at a time. Undefined: the relay's default. */
  accountQuota: number | undefined
  /** Messages read in a second. Undefined: the relay's default. */
  eventsPerSecond: number | undefined
  /** Messages read in any hour, and in any day. Undefined: the relay's default. 0: any number. */
  eventsPerHour: number | undefined
  eventsPerDay: number | undefined
  /** The relay does this when the source begins its numbers again: it reads from the oldest event, or waits for the operator. */
  onRenumbered: 'restart' | 'hold'
  note: string
}

export type DesiredState = 'enabled' | 'paused' | 'banned' | 'removed'

/** A source as it is stored. */
export interface PolicySource {
  /** Stands in the event log: never given to another host. */
  id: number
  /** Host name, with a port where it is a private one. */
  host: string
  /** `wss://…` or `ws://…`, without a path. */
  url: string
  policy: SourcePolicy
  /** Goes up by one with every change. */
  revision: number
  addedAtMs: number
}

export const newSourcePolicy: SourcePolicy = {
  desired: 'enabled',
  kind: 'pds',
  isTrusted: false,
  validation: undefined,
  accountQuota: undefined,
  eventsPerSecond: undefined,
  eventsPerHour: undefined,
  eventsPerDay: undefined,
  onRenumbered: 'restart',
  note: '',
}

/** Fields for which the relay has a default, with the word of an operator that takes an own value back. */
const takesBack = {
  validation: 'default',
  accountQuota: null,
  eventsPerSecond: null,
  eventsPerHour: null,
  eventsPerDay: null,
} as const

type Defaulted = keyof typeof takesBack

/** What an operator may change of a source's policy. Whether a source is read has a method of its own. */
export type SourcePolicyChange = Partial<Omit<SourcePolicy, 'desired' | Defaulted>> & {
  [N in Defaulted]?: NonNullable<SourcePolicy[N]> | (typeof takesBack)[N]
}

export function applyChange(policy: SourcePolicy, change: SourcePolicyChange): SourcePolicy {
  const words = new Map<string, unknown>(Object.entries(takesBack))
  const changed = Object.entries(change)
    .filter(([name]) => name !== 'desired' && Object.hasOwn(newSourcePolicy, name))
    .map(([name, value]) => [name, value === words.get(name) ? undefined : value])
  return { ...policy, ...(Object.fromEntries(changed) as Partial<SourcePolicy>) } // of the fields of a change
}
