/** What the world around the stream is like at the moment: each part behaves oddly for a while, and then as it should again. */
import type { Conditions } from '@tributary/testkit/simulation'

export const manners = {
  /** How the directory answers for documents. */
  directory: ['late', 'silent', 'failing'],
  /** The connection to the relay. */
  link: ['down', 'slow', 'jumpy'],
  /** The host of all accounts, which is asked for their repositories. In some scenes it is `older`, too: it gives former ones. */
  host: ['late', 'failing', 'silent', 'busy', 'garbled'],
  /** How verifying threads are. */
  threads: ['slow', 'forgetful'],
  disk: ['slow', 'stuck'],
  database: ['slow'],
} as const

export type Part = keyof typeof manners

export type StreamConditions = Conditions<Part>
