import { isIP } from 'node:net'

/**
 * An IP address in its one canonical form: IPv4 when it is one that IPv6 carries, as in `::ffff:192.0.2.1`, however that
 * is written. Undefined for what is no address.
 */
export function canonicalAddress(address: string): string | undefined {
  const family = isIP(address)
  if (family === 0) return undefined
  if (family === 4) return address
  const [plain] = address.split('%') // a zone names an interface of this machine and no host
  const canonical = new URL(`http://[${plain}]`).hostname.slice(1, -1)
  const [, high, low] = /^::ffff:([0-9a-f]+):([0-9a-f]+)$/.exec(canonical) ?? []
  if (high === undefined || low === undefined) return canonical
  const [a, b] = [Number.parseInt(high, 16), Number.parseInt(low, 16)]
  return `${a >> 8}.${a & 255}.${b >> 8}.${b & 255}`
}

/**
 * Whom a limit per address counts: an IPv4 address, or the /64 of an IPv6 address, for whoever has IPv6 has a whole /64
 * of addresses. What is no address counts as one caller.
 */
export function networkOf(address: string): string {
  const canonical = canonicalAddress(address)
  if (canonical === undefined) return 'unknown'
  if (isIP(canonical) === 4) return canonical
  const [before = '', after] = canonical.split('::')
  const groups = before === '' ? [] : before.split(':')
  const groupsAfter = after ? after.split(':') : []
  if (after !== undefined) while (groups.length + groupsAfter.length < 8) groups.push('0')
  return `${[...groups, ...groupsAfter].slice(0, 4).join(':')}::/64`
}

/**
 * Who takes turns with others, and gives way to them: an IPv4 address, or the /48 of an IPv6 address. Many have a whole /48,
 * which has 65,536 networks: with one connection of each they would hold everything, and nobody more than others.
 */
export function siteOf(address: string): string {
  const network = networkOf(address)
  return network.endsWith('::/64') ? `${network.split(':', 3).join(':')}::/48` : network
}
