/** How an account looks by one of its profiles (feed.md section 10). */
import { feedCollections } from '@tributary/protocol'
import { imageOf, imageOfBlob } from './image.ts'
import type { LexRecord } from './record.ts'

export const profileCollections: readonly string[] = [feedCollections.profile, feedCollections.socialProfile]

/** Name and avatar. Undefined for other collections, and for an attested profile that says nothing. */
export function appearanceOf(collection: string, profile: LexRecord): LexRecord | undefined {
  switch (collection) {
    case feedCollections.profile: {
      if (!saysSomething(profile)) return undefined
      const avatar = imageOf(profile['avatar'], ['org.impact.defs#uri', 'org.impact.defs#smallImage'])
      return { ...displayName(profile), ...(avatar ? { avatar } : {}) }
    }
    case feedCollections.socialProfile: {
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
