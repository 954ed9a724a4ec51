/** Who an entry is by or about (feed.md section 10). */
import { isHandle, type Did, type Handle } from '@tributary/protocol'
import { attestedProfile, socialProfile, type ActorSource } from '../select/actors.ts'
import { imageOf, imageOfBlob } from './image.ts'
import type { LexRecord, RecordReader } from './record.ts'

export interface ActorSummary {
  readonly did: Did
  readonly handle?: Handle
  readonly displayName?: string
  /** A member of the lexicon's avatar union. */
  readonly avatar?: LexRecord
}

type Appearance = Pick<ActorSummary, 'displayName' | 'avatar'>

/**
 * The summary of one account. One profile gives both name and avatar: the attested one if it says anything at all, else
 * the social one. Gaps of the chosen profile are not filled from the other.
 */
export function summarizeActor(
  did: Did,
  source: ActorSource | undefined,
  readRecord: RecordReader,
): ActorSummary {
  const { handle, attested, social } = source ?? {}
  return {
    did,
    ...(isHandle(handle) ? { handle } : {}),
    ...(attestedAppearance(attested, readRecord) ?? socialAppearance(social, readRecord)),
  }
}

function attestedAppearance(json: string | undefined, readRecord: RecordReader): Appearance | undefined {
  const profile = json === undefined ? undefined : readRecord(attestedProfile, json)
  if (!profile || !saysSomething(profile)) return undefined
  const avatar = imageOf(profile['avatar'], ['org.impact.defs#uri', 'org.impact.defs#smallImage'])
  return { ...displayName(profile), ...(avatar ? { avatar } : {}) }
}

function socialAppearance(json: string | undefined, readRecord: RecordReader): Appearance | undefined {
  const profile = json === undefined ? undefined : readRecord(socialProfile, json)
  if (!profile) return undefined
  const avatar = imageOfBlob(profile['avatar'])
  return { ...displayName(profile), ...(avatar ? { avatar } : {}) }
}

function saysSomething(profile: LexRecord): boolean {
  const said = ['displayName', 'description', 'avatar', 'banner', 'pronouns', 'website']
  return said.some((field) => profile[field] !== undefined && profile[field] !== '')
}

function displayName(profile: LexRecord): Appearance {
  const name = profile['displayName']
  return typeof name === 'string' && name !== '' ? { displayName: name } : {}
}
