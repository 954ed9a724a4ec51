/** The operator's methods about those who are connected to the live stream. */
import { CloseReason, type Fanout, type SubscriberInfo } from '@tributary/fanout'
import { addProcedure, addQuery, datetime, pageOf, parseIdCursor, type Page } from '@tributary/operations'
import { XrpcError } from '@tributary/xrpc'
import { FilterGroup } from '../delivery/filter-group.ts'
import { operatorPrefix, type OperatorParts } from './operator-parts.ts'

/** DIDs of a filter that are shown. It may name 10,000. */
const didsShownMax = 10

export function addSubscriberMethods({ server, operations, fanout }: OperatorParts): void {
  addQuery<Page>(server, operatorPrefix, 'listSubscribers', ({ limit, cursor }) => {
    const after = parseIdCursor(cursor)
    // Numbers are given out in order, and the list has the oldest connection first.
    const rows = fanout.subscribers().filter(({ id }) => id > after)
    const { page, ...rest } = pageOf(rows.slice(0, limit + 1), limit, ({ id }) => id)
    return { subscribers: page.map((each) => describe(fanout, each)), ...rest }
  })
  addProcedure<{ id: number }>(
    server,
    operatorPrefix,
    'disconnectSubscriber',
    async ({ id }, request) =>
      await operations.run(request, () => () => {
        const subscriber = fanout.subscribers().find((each) => each.id === id && each.state !== 'closed')
        if (!subscriber) throw new XrpcError(400, 'SubscriberNotFound', `no subscriber ${id} is connected`)
        const { remoteAddress, userAgent, position } = subscriber
        const message = 'The operator ended this connection'
        return {
          subject: `subscriber ${id}`,
          before: { remoteAddress, userAgent, position },
          output: { id },
          effect: () => void fanout.disconnect(id, new CloseReason(1008, 'Disconnected', message)),
        }
      }),
  )
}

function describe(fanout: Fanout, { connectedAtMs, ...subscriber }: SubscriberInfo): object {
  const group = fanout.sourceOf(subscriber.id)
  const { kinds = [], collections = [], dids = [] } = group instanceof FilterGroup ? group.filter : {}
  const filter = { kinds, collections, dids: dids.slice(0, didsShownMax), didCount: dids.length }
  return { ...subscriber, ...datetime('connectedAt', connectedAtMs), filter }
}
