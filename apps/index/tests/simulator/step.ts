/** The steps of which a script is made. */
import type { Ending } from '@tributary/testkit/simulation'
import type { Part } from './conditions.ts'

/** Numbers of accounts are taken modulo how many there are. `draw` seeds what else a step needs. */
export type Step =
  | { do: 'wait'; ms: number }
  /** Accounts write, are taken down and come back, and the stream tells. */
  | { do: 'events'; count: number; draw: number; isDense?: boolean }
  /** Rows that later ones supersede leave the archive of the stream, as far as the index has it. */
  | { do: 'compact' }
  /** The stream tells the status of an account, and its host says the same. */
  | { do: 'status'; account: number; word: string }
  /** An account has another handle, none, or declares that of another account. */
  | { do: 'identity'; account: number; handle: (typeof handles)[number] }
  /** An account has another host. The one before says that it is gone. */
  | { do: 'move'; account: number }
  /** A host says something of an account that the stream does not tell. */
  | { do: 'word'; account: number; word: string }
  | { do: 'rebuild' }
  | { do: 'read'; draw: number }
  | { do: 'condition'; part: Part; manner: string; forMs: number }
  /** The database takes so many more calls and then fails. */
  | { do: 'fail'; afterCalls: number }
  | ({ do: 'restart' } & Ending)

export const handles = ['new', 'new', 'none', 'stolen'] as const
