import { feedSettings } from '@tributary/feed/settings'
import { indexSettings } from '@tributary/index/settings'
import { relaySettings } from '@tributary/relay/settings'
import { streamSettings } from '@tributary/stream/settings'

/** The settings of every service, by its name. */
export const serviceSettings = {
  relay: relaySettings,
  stream: streamSettings,
  index: indexSettings,
  feed: feedSettings,
} as const
