/** How an account looks by one of its profiles (feed.md section 10). */
import { imageOf, imageOfBlob } from './image.ts'
import type { LexRecord } from './record.ts'

const attestedProfile = 'app.attested.actor.profile'
const socialProfile = 'app.social.actor.profile'
export const profileCollections: readonly string[] = [attestedProfile, socialProfile]

/** Name and avatar. Undefined for other collections, and for an attested profile that says nothing. */
export function appearanceOf(collection: string, profile: LexRecord): LexRecord | undefined {
  switch (collection) {
    case attestedProfile: {
      if (!saysSomething(profile)) return undefined
      const avatar = imageOf(profile['avatar'], ['org.impact.defs#uri', 'org.impact.defs#smallImage'])
      return { ...displayName(profile), ...(avatar ? { avatar } : {}) }
    }
    case socialProfile: {
      const avatar = imageOfBlob(profile['avatar'])
      return { ...displayName(profile), ...(avatar ? { avatar } : {}) }
    }
    default:
      return undefined
  }
}

function saysSomething(profile: LexRecord): boolean {
  const said = ['displayName', 'description', 'avatar', 'banner', 'pronouns', 'website']
  return said.some((field) => profile[field] !== undefined && profile[field] !== '')
}

function displayName(profile: LexRecord): LexRecord {
  const name = profile['displayName']
  return typeof name === 'string' && name !== '' ? { displayName: name } : {}
}
