/** The methods that this service answers. */
export const feedMethods = ['org.impact.feed.getFeed', 'org.impact.feed.getFeedSkeleton'] as const
export type FeedMethod = (typeof feedMethods)[number]
