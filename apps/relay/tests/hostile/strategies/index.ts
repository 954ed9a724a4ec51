/** Every strategy by its name. What a campaign plays, and in which order, follows from its seed and these names. */
import type { Strategy } from '../stage.ts'
import { answering } from './answering.ts'
import { consuming } from './consuming.ts'
import { directory } from './directory.ts'
import { flooding } from './flooding.ts'
import { forging } from './forging.ts'
import { identities } from './identities.ts'
import { killing } from './killing.ts'
import { messages } from './messages.ts'
import { numbering } from './numbering.ts'

export const strategies: Readonly<Record<string, Strategy>> = {
  ...forging,
  ...messages,
  ...identities,
  ...flooding,
  ...answering,
  ...numbering,
  ...directory,
  ...consuming,
  ...killing,
}
