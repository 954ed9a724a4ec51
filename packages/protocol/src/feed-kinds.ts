/** What an entry of the feed can be. */
export const entryKinds = [
  'cert.create',
  'collection.create',
  'project.created_with_cert',
  'evaluation.create',
  'measurement.create',
  'update.create',
  'endorsement.award',
  'hyperboard.create',
] as const
export type EntryKind = (typeof entryKinds)[number]

/** The values of labels that rate an organization; the feed looks at no other. */
export const qualityLabels = ['high-quality', 'standard', 'draft', 'likely-test'] as const
export type QualityLabel = (typeof qualityLabels)[number]
