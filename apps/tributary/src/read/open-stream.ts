import { createStreamClient, type ReadOptions, type StreamClient } from '@tributary/client/node'
import type { EventKind } from '@tributary/protocol'
import type { ClientSettings } from './client-settings.ts'

/** A client for the settings, and the filter to read with. @throws StreamError `InvalidRequest` */
export function openStream(
  settings: ClientSettings,
  retry: { giveUpMs?: number } = {},
  compress = false,
): { client: StreamClient; filter: ReadOptions } {
  const { url, nsidPrefix, jetstreamVersion, collections, dids } = settings
  const apiKey = settings.apiKey ?? settings.apiKeyFile
  const client = createStreamClient({
    url,
    nsidPrefix,
    jetstreamVersion: jetstreamVersion === '1' ? 1 : 2,
    retry,
    compress,
    ...(apiKey !== undefined && { apiKey }),
  })
  const kinds = settings.kinds as readonly EventKind[] // their pattern is that of a kind
  return { client, filter: { kinds, collections, dids } }
}
