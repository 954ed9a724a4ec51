/** How a server of each version of Jetstream is subscribed to, and its messages read. Version 1 has live events alone. */
import type { EventFilter } from '@tributary/protocol'
import { type LiveMessage, readMessage, readMessageV1 } from './message.ts'
import type { Server } from './http.ts'

/** Servers bound the length of a request line. A longer list of DIDs is left to our own filter. */
const urlCharsMax = 8000

export interface Wire {
  subprotocol: string | undefined
  subscribeUrl: (server: Server, filter: EventFilter, query: SubscribeQuery) => string
  /** Never throws. */
  readMessage: (text: string) => LiveMessage
}

export interface SubscribeQuery {
  cursor: number | undefined
  dictionaryId: number | undefined
}

export const wires: Readonly<Record<1 | 2, Wire>> = {
  1: {
    subprotocol: undefined,
    subscribeUrl: ({ url }, { collections = [], dids = [] }, { cursor }) => {
      const query = new URLSearchParams()
      if (cursor !== undefined) query.set('cursor', String(cursor))
      for (const collection of collections) query.append('wantedCollections', collection)
      return addressOf(`${url}/subscribe`, query, 'wantedDids', dids)
    },
    readMessage: readMessageV1,
  },
  2: {
    subprotocol: 'xrpc.v1.json',
    subscribeUrl: ({ url, nsidPrefix }, filter, { cursor, dictionaryId }) => {
      const query = new URLSearchParams()
      if (cursor !== undefined) query.set('cursor', String(cursor))
      query.set('progress', 'true')
      if (dictionaryId !== undefined) query.set('zstdDictionary', String(dictionaryId))
      for (const kind of filter.kinds ?? []) query.append('kinds', kind)
      for (const collection of filter.collections ?? []) query.append('collections', collection)
      return addressOf(`${url}/xrpc/${nsidPrefix}.subscribeEvents`, query, 'dids', filter.dids ?? [])
    },
    readMessage,
  },
}

function addressOf(base: string, query: URLSearchParams, name: string, dids: readonly string[]): string {
  const withoutDids = query.toString()
  for (const did of dids) query.append(name, did)
  const full = query.toString()
  const chosen = full.length > urlCharsMax ? withoutDids : full
  return base.replace(/^http/, 'ws') + (chosen && `?${chosen}`)
}
