/** Which addresses may be dialled on the word of the network: `relay.md` calls for checking the address, not the name. */
import { BlockList, isIP } from 'node:net'

const refused = new BlockList()
for (const network of [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]) {
  const [address = '', bits] = network.split('/')
  refused.addSubnet(address, Number(bits), 'ipv4')
}
// Within 2000::/3: 6to4 and Teredo, which can embed private IPv4 addresses, and the documentation network.
refused.addSubnet('2002::', 16, 'ipv6')
refused.addSubnet('2001::', 32, 'ipv6')
refused.addSubnet('2001:db8::', 32, 'ipv6')

const unicast = new BlockList()
unicast.addSubnet('2000::', 3, 'ipv6')

/** True for a global unicast address. IPv6 forms that embed IPv4 are not. */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !refused.check(address, 'ipv4')
    case 6:
      return unicast.check(address, 'ipv6') && !refused.check(address, 'ipv6')
    default:
      return false
  }
}
