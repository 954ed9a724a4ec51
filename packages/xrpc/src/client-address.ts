import { BlockList, isIP } from 'node:net'
import type { IncomingMessage } from 'node:http'

/**
 * Finds out who calls. `X-Forwarded-For` counts only as far as the proxies that wrote it are trusted: from the right,
 * the first address that is not a trusted proxy is the client. Anything further left is the client's own claim.
 *
 * @param trustedProxies addresses, or networks in CIDR form. Throws RangeError for one that is neither.
 */
export function clientAddressReader(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const trusted = new BlockList()
  for (const proxy of trustedProxies) addTrusted(trusted, proxy)

  return (request) => {
    let address = plainAddress(request.socket.remoteAddress ?? '')
    const hops = [request.headers['x-forwarded-for'] ?? []].flat().join(',').split(',')
    while (isTrusted(trusted, address)) {
      const hop = plainAddress(hops.pop()?.trim() ?? '')
      if (isIP(hop) === 0) break
      address = hop
    }
    return address
  }
}

function addTrusted(trusted: BlockList, proxy: string): void {
  const [address = '', prefix] = proxy.split('/')
  const family = isIP(address)
  const bits = prefix === undefined ? (family === 4 ? 32 : 128) : Number(prefix)
  if (family === 0 || !Number.isInteger(bits) || bits < 0 || bits > (family === 4 ? 32 : 128)) {
    throw new RangeError(`a trusted proxy must be an IP address or network, not ${JSON.stringify(proxy)}`)
  }
  trusted.addSubnet(address, bits, family === 4 ? 'ipv4' : 'ipv6')
}

function isTrusted(trusted: BlockList, address: string): boolean {
  const family = isIP(address)
  return family !== 0 && trusted.check(address, family === 4 ? 'ipv4' : 'ipv6')
}

/** A dual-stack socket reports IPv4 peers as ::ffff:192.0.2.1. */
function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address
}
