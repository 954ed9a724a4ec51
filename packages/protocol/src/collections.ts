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

/** What the feed shows besides the watched collections: social profiles and boards. */
export const feedExtraCollections: readonly Nsid[] = [
  'app.social.actor.profile',
  'org.hyperboards.board',
] as Nsid[] // constants of the specification

/**
 * What a feed is made of; records of the other collections say nothing to it. Not for an operator to change: what is added
 * later would lack the events from before.
 */
export const indexedCollections: readonly Nsid[] = [
  'app.attested.actor.organization',
  'app.attested.actor.profile',
  'app.attested.badge.award',
  'app.attested.badge.definition',
  'app.attested.badge.response',
  'app.attested.graph.follow',
  'org.impact.claim.activity',
  'org.impact.collection',
  'org.impact.context.attachment',
  'org.impact.context.evaluation',
  'org.impact.context.measurement',
  ...feedExtraCollections,
] as Nsid[] // constants of the specification
