import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import { canonicalAddress } from './network-of.ts'

/** Says of an address, in its canonical form, whether it is one of the proxies whose word counts. */
export type IsTrusted = (address: string) => boolean

/** @param trustedProxies addresses, or networks in CIDR form. Throws RangeError for one that is neither. */
export function trustedProxyCheck(trustedProxies: readonly string[]): IsTrusted {
  const trusted = new BlockList()
  for (const proxy of trustedProxies) addTrusted(trusted, proxy)
  return (address) => {
    const family = isIP(address)
    return family !== 0 && trusted.check(address, family === 4 ? 'ipv4' : 'ipv6')
  }
}

/**
 * Finds out who calls, as a canonical address. `X-Forwarded-For` counts only as far as the proxies that wrote it are
 * trusted: from the right, the first address that is not a trusted proxy is the client. Anything further left is the
 * client's own claim.
 */
export function clientAddressReader(isTrusted: IsTrusted): (request: IncomingMessage) => string {
  return (request) => {
    let address = canonicalAddress(request.socket.remoteAddress ?? '') ?? ''
    if (!isTrusted(address)) return address
    const hops = [request.headers['x-forwarded-for'] ?? []].flat().join(',').split(',')
    while (isTrusted(address)) {
      const hop = canonicalAddress(withoutPort(hops.pop()?.trim() ?? ''))
      if (hop === undefined) break
      address = hop
    }
    // Addresses are kept for long, and a part of a text keeps all of it.
    return Buffer.from(address).toString()
  }
}

/** Some proxies write `192.0.2.1:1234` or `[2001:db8::1]:1234`. */
function withoutPort(hop: string): string {
  return /^\[(.*)\](?::\d+)?$/.exec(hop)?.[1] ?? hop.replace(/^([\d.]+):\d+$/, '$1')
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
