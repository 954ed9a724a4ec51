export { startFeed, type FeedService } from './service.ts'
export { feedSettings, type FeedSettings } from './settings.ts'
