export { startFeed, type FeedContext, type FeedService } from './service.ts'
export { feedSettings, type FeedSettings } from './settings.ts'
