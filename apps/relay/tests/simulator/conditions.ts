/**
 * What the world around the relay is like at the moment: how the directory, the hosts of accounts, their connections, the
 * verifying threads and the disks behave, each for a while and then as they should again.
 */
import type { Conditions } from '@tributary/testkit/simulation'

export const manners = {
  /** How documents are answered for: with what they were before, with none at all, and so on. */
  directory: ['late', 'silent', 'failing', 'older', 'missing'],
  /** How the hosts of accounts answer. */
  answers: ['late', 'silent', 'failing', 'garbled'],
  link: ['down', 'slow', 'jumpy'],
  threads: ['slow', 'forgetful'],
  disk: ['slow', 'stuck'],
  database: ['slow'],
  clock: ['ahead'],
  /** Accounts that a host makes up are in the way of its own. */
  flood: ['on'],
} as const

export type Part = keyof typeof manners

/** A part of the world: the whole of it, or what belongs to one account or host. */
export type Place = Part | `${Part} ${number}`

export type RelayConditions = Conditions<Place>
