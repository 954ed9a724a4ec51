/**
 * The addresses of names that the network gave, refused when any of them is private. The name servers are asked
 * directly, A and AAAA at once: Node's own look-up holds a thread of the process until it is over, and there are so few
 * of them that names whose servers never answer would hold up every other look-up. Here each look-up is bounded and
 * ended by itself, and whoever looks up bounds how many there are.
 * The hosts file and search domains are not consulted: they are the operator's, and so are the hosts that they are for.
 */
import type { LookupAddress } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import { callbackify } from 'node:util'
import { FetchError } from './fetch-error.ts'
import { isPublicAddress } from './public-address.ts'

export interface NameServers {
  /** Asked for public names, as `address` or `address:port`. Default: those of the system. */
  nameServers?: readonly string[]
}

export interface PublicLookupOptions extends NameServers {
  /** Ends look-ups when nobody waits for them any more. */
  signal?: AbortSignal
}

/** Tries per name server. The second waits for twice as long, so a single server has 4.5 seconds. */
const tries = { timeout: 1500, tries: 2 }
/** How long AAAA is waited for when A is there: some name servers answer everything but AAAA. */
const ipv6GraceMs = 1000
/** Answers that say that a name is not there, has no address, or cannot be one. */
const unknownCodes = new Set<unknown>(['ENOTFOUND', 'ENODATA', 'EBADNAME'])

/** A look-up as sockets take it. Its errors are those of `dns.lookup`, and FetchError for a private address. */
export function publicLookup(options: PublicLookupOptions): LookupFunction {
  const find = callbackify(findAddresses)
  return (hostname, { all, family }, callback) =>
    find(hostname, family, options, (error, addresses) => {
      if (error) callback(error, '')
      else if (all) callback(null, addresses)
      else callback(null, addresses[0].address, addresses[0].family)
    })
}

type Addresses = [LookupAddress, ...LookupAddress[]]

/** IPv4 comes first, for a machine may have no IPv6; where both are there, sockets try one after the other. */
async function findAddresses(
  hostname: string,
  family: number | string | undefined,
  { nameServers, signal }: PublicLookupOptions,
): Promise<Addresses> {
  signal?.throwIfAborted()
  // One for each look-up: it can be ended alone, and its queries leave from a port of their own.
  const resolver = new Resolver(tries)
  if (nameServers) resolver.setServers(nameServers)
  const end = (): void => resolver.cancel()
  let grace: NodeJS.Timeout | undefined
  signal?.addEventListener('abort', end, { once: true })
  try {
    const ipv4 = family === 6 || family === 'IPv6' ? [] : resolver.resolve4(hostname)
    const ipv6 = family === 4 || family === 'IPv4' ? [] : resolver.resolve6(hostname)
    const both = Promise.allSettled([ipv4, ipv6])
    const startGrace = (addresses: string[]): void => {
      if (addresses.length > 0) grace = setTimeout(end, ipv6GraceMs)
    }
    void Promise.resolve(ipv4).then(startGrace, () => undefined)
    return readAnswers(hostname, await both)
  } finally {
    clearTimeout(grace)
    signal?.removeEventListener('abort', end)
  }
}

function readAnswers(hostname: string, answers: PromiseSettledResult<string[]>[]): Addresses {
  const addresses = answers.flatMap((answer, i) =>
    answer.status === 'fulfilled'
      ? answer.value.map((address) => ({ address, family: i === 0 ? 4 : 6 }))
      : [],
  )
  if (addresses.some(({ address }) => !isPublicAddress(address)))
    throw new FetchError(`${hostname} has a private address`)
  const [first, ...more] = addresses
  if (first) return [first, ...more]
  const errors = answers.flatMap((answer) =>
    answer.status === 'rejected' && answer.reason instanceof Error ? [answer.reason] : [],
  )
  // One of the two not being known is not enough: the other may be there when it is asked for again.
  const failure = errors.find((error) => !('code' in error && unknownCodes.has(error.code)))
  throw failure ?? unknownName(hostname, errors[0])
}

/** As `dns.lookup` has it. */
function unknownName(hostname: string, cause: Error | undefined): Error {
  const error = new Error(`${hostname} has no address`, { cause })
  return Object.assign(error, { code: 'ENOTFOUND', syscall: 'query', hostname })
}
