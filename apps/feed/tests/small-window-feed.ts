/** The feed service as `main.ts` starts it, with a window so small that each way of selecting a page is taken often. */
import { runService } from '@tributary/settings'
import { startFeed } from '../src/service.ts'
import { feedSettings } from '../src/settings.ts'

const window = {
  accountsMin: 0,
  lookUpsPerAccount: 8,
  lookUpsMax: 24,
  lookUpsPerStepMax: 4,
}

await runService('feed', feedSettings, (settings, context) => startFeed(settings, { ...context, window }))
