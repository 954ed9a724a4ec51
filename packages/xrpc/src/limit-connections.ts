import type { Server } from 'node:net'
import { AddressCount } from './address-count.ts'
import type { IsTrusted } from './client-address.ts'
import { canonicalAddress } from './network-of.ts'

/**
 * Drops connections of a network that has as many open as it may, so that no client takes the places of all. A trusted
 * proxy speaks for many clients and may have any number.
 */
export function limitConnections(server: Server, perAddressMax: number, isTrusted: IsTrusted): void {
  const connections = new AddressCount()
  server.on('connection', (socket) => {
    const address = canonicalAddress(socket.remoteAddress ?? '')
    if (address === undefined) {
      socket.destroy() // it is gone already
      return
    }
    if (isTrusted(address)) return
    if (connections.of(address) >= perAddressMax) {
      socket.destroy()
      return
    }
    connections.add(address, 1)
    socket.once('close', () => connections.add(address, -1))
  })
}
