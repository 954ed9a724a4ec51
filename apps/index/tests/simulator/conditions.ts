/** The world around the index: each part of it behaves oddly for a while, and then as it should again. */
import type { Conditions } from '@tributary/testkit/simulation'

export const manners = {
  /** The stream. `refused`: it takes no key of ours. */
  stream: ['down', 'slow', 'jumpy', 'refused'],
  /** How the directory answers for documents. */
  directory: ['late', 'silent', 'failing', 'missing', 'older'],
  /** How hosts answer for accounts. */
  hosts: ['late', 'silent', 'failing', 'garbled'],
  /** How name servers answer for handles. */
  names: ['late', 'silent', 'elsewhere'],
} as const

export type Part = keyof typeof manners

export type IndexConditions = Conditions<Part>
