import type { IncomingMessage } from 'node:http'
import type { Server, Socket } from 'node:net'
import { SharedPlaces } from '@tributary/rates'
import { AddressCount } from './address-count.ts'
import type { IsTrusted } from './client-address.ts'
import { canonicalAddress, siteOf } from './network-of.ts'

export interface ConnectionsMax {
  all: number
  /** Of one network (`networkOf`). A trusted proxy speaks for many clients and may have any number. */
  perAddress: number
}

/**
 * Drops connections of a network that has as many open as it may. When all places are taken, a newcomer takes the place of
 * the newest connection of the site (`siteOf`) that has most, unless its own has as many. Upgraded connections and those of
 * trusted proxies keep their places.
 */
export function limitConnections(server: Server, max: ConnectionsMax, isTrusted: IsTrusted): void {
  const connections = new AddressCount()
  const places = new SharedPlaces<Socket>()
  let all = 0
  server.on('connection', (socket) => {
    const address = canonicalAddress(socket.remoteAddress ?? '')
    if (address === undefined) {
      socket.destroy() // it is gone already
      return
    }
    const mayComeIn = isTrusted(address) || connections.of(address) < max.perAddress
    const other = all < max.all ? undefined : places.givingWayTo(siteOf(address))
    if (!mayComeIn || (all >= max.all && !other)) {
      socket.destroy()
      return
    }
    all++
    connections.add(address, 1)
    socket.once('close', () => {
      all--
      connections.add(address, -1)
      places.delete(socket)
    })
    if (!isTrusted(address)) places.add(siteOf(address), socket)
    if (!other) return
    places.delete(other)
    other.destroy()
  })
  server.on('upgrade', ({ socket }: IncomingMessage) => places.delete(socket))
}
