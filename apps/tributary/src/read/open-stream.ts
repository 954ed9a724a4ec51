import { createStreamClient, type ReadOptions, type StreamClient } from '@tributary/client/node'
import type { EventKind } from '@tributary/protocol'
import { UsageError } from '../command-errors.ts'
import type { ClientSettings } from './client-settings.ts'

/** A client for the settings, and the filter to read with. @throws StreamError `InvalidRequest`, or UsageError */
export function openStream(
  settings: ClientSettings,
  retry: { giveUpMs?: number } = {},
  compress = false,
): { client: StreamClient; filter: ReadOptions } {
  const { url, nsidPrefix, jetstreamVersion, collections, dids } = settings
  if (jetstreamVersion === '1' && nsidPrefix !== undefined)
    throw new UsageError('a server of Jetstream v1 has no namespace of methods: leave --nsid-prefix out')
  const apiKey = settings.apiKey ?? settings.apiKeyFile
  const client = createStreamClient({
    url,
    jetstreamVersion: jetstreamVersion === '1' ? 1 : 2,
    retry,
    compress,
    ...(nsidPrefix !== undefined && { nsidPrefix }),
    ...(apiKey !== undefined && { apiKey }),
  })
  const kinds = settings.kinds as readonly EventKind[] // their pattern is that of a kind
  return { client, filter: { kinds, collections, dids } }
}
