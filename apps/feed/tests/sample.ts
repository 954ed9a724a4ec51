/** Names, times and valid records for the tests. */
import type { Did, EntryKind } from '@tributary/protocol'

export const recordCid = 'bafyreieos3lwft276jbcwfcuwgdftxpsexbxydiebo2jpfsleivbrs7nli'
const blobCid = 'bafkreift5ympvzivnjvvkjx3stgiwwvwbioqgylc4jfg7fddgerfthwfim'

/** Noon of the day that the tests play on. */
export const noon = '2026-03-04T12:00:00.000Z'

/** The account of a name: `did:plc:alice22…`. */
export function did(name: string): Did {
  return `did:plc:${name.toLowerCase().padEnd(24, '2')}` as Did // made to fit
}

export const collectionOf: Readonly<Record<EntryKind, string>> = {
  'cert.create': 'org.impact.claim.activity',
  'collection.create': 'org.impact.collection',
  'project.created_with_cert': 'org.impact.collection',
  'evaluation.create': 'org.impact.context.evaluation',
  'measurement.create': 'org.impact.context.measurement',
  'update.create': 'org.impact.context.attachment',
  'endorsement.award': 'app.attested.badge.award',
  'hyperboard.create': 'org.hyperboards.board',
}

const ref = { uri: `at://${did('target')}/org.impact.claim.activity/3target`, cid: recordCid }

/** Required fields of each kind's record, besides `$type` and `createdAt`. */
const required: Readonly<Record<EntryKind, object>> = {
  'cert.create': { title: 'Trees', shortDescription: 'We planted trees.' },
  'collection.create': { title: 'Water' },
  'project.created_with_cert': { title: 'Water' },
  'evaluation.create': { evaluators: [{ did: did('grader') }], summary: 'Done as described.' },
  'measurement.create': { metric: 'trees planted', unit: 'trees', value: '200' },
  'update.create': { title: 'Week 3' },
  'endorsement.award': { badge: ref, subject: { $type: 'app.attested.defs#did', did: did('endorsed') } },
  'hyperboard.create': { subject: ref },
}

/** A record of the kind that passes its lexicon, with more fields or others. A field set to undefined is left out. */
export function recordOf(kind: EntryKind, fields: object = {}): object {
  return { $type: collectionOf[kind], ...required[kind], createdAt: noon, ...fields }
}

export function blob(fields: object = {}): object {
  return { $type: 'blob', ref: { $link: blobCid }, mimeType: 'image/png', size: 2000, ...fields }
}

export function smallImage(fields: object = {}): object {
  return { $type: 'org.impact.defs#smallImage', image: blob(fields) }
}

export function largeImage(fields: object = {}): object {
  return { $type: 'org.impact.defs#largeImage', image: blob(fields) }
}

export function smallBlob(fields: object = {}): object {
  return { $type: 'org.impact.defs#smallBlob', blob: blob(fields) }
}

export function uriImage(uri = 'https://orchard.example/tree.jpg'): object {
  return { $type: 'org.impact.defs#uri', uri }
}
