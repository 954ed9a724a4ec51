import { runService } from '@tributary/settings'
import { startRelay } from './service.ts'
import { relaySettings } from './settings.ts'

await runService('relay', relaySettings, startRelay)
