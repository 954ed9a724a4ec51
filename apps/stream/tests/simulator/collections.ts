/** The collections of the records that accounts write. */

/** What the stream begins with. */
export const watchedCollections = ['org.impact.collection', 'org.impact.claim.activity']
/** Those that an operator adds and removes. The one that is left is watched throughout. */
export const changingCollections = [
  'org.impact.claim.activity.draft',
  'org.impact.evaluation',
  'org.impact.claim.activity',
]
export const collections = [...new Set([...watchedCollections, ...changingCollections])]

/** The collection of a record. */
export function collectionOf(path: string): string {
  return path.slice(0, path.indexOf('/'))
}
