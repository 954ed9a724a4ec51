import { runService } from '@tributary/settings'
import { startStream } from './service.ts'
import { streamSettings } from './settings.ts'

await runService('stream', streamSettings, startStream)
