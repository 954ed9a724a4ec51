import { runService } from '@tributary/settings'
import { startIndex } from './service.ts'
import { indexSettings } from './settings.ts'

await runService('index', indexSettings, startIndex)
