import type { Nsid } from './syntax.ts'

/** The collections that a new stream watches, as the specification lists them. */
export const watchedCollections: readonly Nsid[] = [
  'app.attested.actor.organization',
  'app.attested.actor.profile',
  'app.attested.badge.award',
  'app.attested.badge.definition',
  'app.attested.badge.response',
  'app.attested.graph.entityFollow',
  'app.attested.graph.follow',
  'app.attested.link.evm',
  'app.attested.location',
  'app.attested.signature.proof',
  'org.impact.claim.activity',
  'org.impact.claim.contribution',
  'org.impact.claim.contributorInformation',
  'org.impact.claim.rights',
  'org.impact.collection',
  'org.impact.context.acknowledgement',
  'org.impact.context.attachment',
  'org.impact.context.evaluation',
  'org.impact.context.measurement',
  'org.impact.funding.receipt',
  'org.impact.workscope.tag',
] as Nsid[] // constants of the specification

/**
 * What a feed is made of, by what the records are; records of the other collections say nothing to it. Not for an operator
 * to change: what is added later would lack the events from before.
 */
export const feedCollections = {
  organization: 'app.attested.actor.organization',
  profile: 'app.attested.actor.profile',
  award: 'app.attested.badge.award',
  definition: 'app.attested.badge.definition',
  response: 'app.attested.badge.response',
  follow: 'app.attested.graph.follow',
  activity: 'org.impact.claim.activity',
  collection: 'org.impact.collection',
  attachment: 'org.impact.context.attachment',
  evaluation: 'org.impact.context.evaluation',
  measurement: 'org.impact.context.measurement',
  socialProfile: 'app.social.actor.profile',
  board: 'org.hyperboards.board',
} as const

/** The collections that the index follows. */
export const indexedCollections: readonly Nsid[] = Object.values(feedCollections) as string[] as Nsid[] // constants of the specification

/** What the feed shows besides the watched collections: social profiles and boards. */
export const feedExtraCollections: readonly Nsid[] = [
  feedCollections.socialProfile,
  feedCollections.board,
] as string[] as Nsid[] // constants of the specification
