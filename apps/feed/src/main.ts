import { runService } from '@tributary/settings'
import { startFeed } from './service.ts'
import { feedSettings } from './settings.ts'

await runService('feed', feedSettings, startFeed)
