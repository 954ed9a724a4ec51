import { isIP } from 'node:net'
import { isHandle } from '@tributary/protocol'

export interface PrivateHosts {
  /**
   * Hosts, as `host` or `host:port`, that may be on private addresses, without TLS and on any port. They are looked up
   * as the system does; the names of all others have to be in the DNS, for the hosts file is not read for them. A redirect
   * of another host does not lead to them.
   */
  allowedPrivateHosts: readonly string[]
}

export interface NormalizedHost {
  /** Lower case, with a port only where that is not the usual one. */
  host: string
  /** `https://…`, or `http://…` for an allowed private host that was not named with TLS. No path. */
  url: string
}

const reservedTopLevel = new Set([
  'local',
  'arpa',
  'invalid',
  'localhost',
  'internal',
  'example',
  'onion',
  'alt',
  'test',
])

/** Whether a host (with its port, if any) is one that the operator allowed to be private. */
export function isAllowedPrivate(host: string, { allowedPrivateHosts }: PrivateHosts): boolean {
  const hostname = host.replace(/:\d+$/, '')
  return allowedPrivateHosts.some((allowed) => {
    const name = allowed.replace(/^[a-z]+:\/\//, '').toLowerCase()
    return name === host || name === hostname
  })
}

/**
 * A host as operators and crawl requests write it: a bare name, or a URL with nothing after the host.
 * @returns the reason in words when it is not a host that could be dialled.
 */
export function normalizeHost(input: string, options: PrivateHosts): NormalizedHost | { error: string } {
  const text = input.trim()
  const hasScheme = /^[a-z]+:\/\//i.test(text)
  if (hasScheme && !/^(https?|wss?):\/\//i.test(text))
    return { error: 'only https, http, wss and ws are known' }
  const url = URL.parse(hasScheme ? text.replace(/^ws/i, 'http') : `https://${text}`)
  if (!url || text.length > 300) return { error: 'not a host name' }
  if (url.username || url.password || url.search || url.hash || url.pathname !== '/') {
    return { error: 'a host alone is wanted, without user, path, query or fragment' }
  }
  const host = url.host.toLowerCase()
  if (isAllowedPrivate(host, options)) {
    const isSecure = hasScheme && url.protocol === 'https:'
    return { host, url: `${isSecure ? 'https' : 'http'}://${host}` }
  }
  if (url.protocol !== 'https:') return { error: 'TLS is required' }
  if (url.port) return { error: 'only the usual port is allowed' }
  if (isIP(url.hostname.replace(/^\[|\]$/g, ''))) return { error: 'an address is not a host name' }
  if (!isHandle(host) || reservedTopLevel.has(host.slice(host.lastIndexOf('.') + 1)))
    return { error: 'not a public host name' }
  return { host, url: `https://${host}` }
}
