/**
 * Which account a handle points to, as its domain says: a TXT record of `_atproto.` before the name, or else the text at
 * `/.well-known/atproto-did`. Anybody can write any handle into a DID document, so a handle counts only when it points back.
 */
import { Resolver } from 'node:dns/promises'
import { isDid, type Did, type Handle } from '@tributary/protocol'
import { FetchError } from './fetch-error.ts'
import { normalizeHost, type PrivateHosts } from './host.ts'
import type { NameServers } from './public-lookup.ts'
import { safeFetch } from './safe-fetch.ts'

export interface HandleResolverOptions extends PrivateHosts, NameServers {
  /**
   * For networks whose handles are in no public name server: who answers for a domain and the names below it, as
   * `domain=url`. Asked by `com.atproto.identity.resolveHandle`, on any address.
   */
  handleHosts?: readonly string[]
  /** How the text of a host is asked for. Default: over the network. */
  fetch?: typeof safeFetch
}

/**
 * The account that a handle points to; undefined when it points to none, or to several.
 * @throws FetchError when that cannot be known now.
 */
export type HandleResolver = (handle: Handle, signal?: AbortSignal) => Promise<Did | undefined>

/** Tries per name server. The second waits for twice as long, so a single server has 4.5 seconds. */
const tries = { timeout: 1500, tries: 2 }
const httpMs = 3000
/** A DID has at most 2,048 characters, but many hosts have a page for every path, which says that there is none. */
const textBytesMax = 65_536
/** Besides those from 500 on, statuses of a host that is busy: they say nothing about the name. */
const busyStatuses: ReadonlySet<number> = new Set([408, 425, 429])
/** Answers that say that a name is not there, has no such record, or cannot be one. */
const unknownCodes = new Set<unknown>(['ENOTFOUND', 'ENODATA', 'EBADNAME'])

export function createHandleResolver(options: HandleResolverOptions): HandleResolver {
  const hosts = (options.handleHosts ?? []).map((entry) => {
    const at = entry.indexOf('=')
    return { domain: entry.slice(0, at).replace(/^\./, ''), url: entry.slice(at + 1).replace(/\/$/, '') }
  })
  return async (handle, signal) => {
    const host = hosts.find(({ domain }) => handle === domain || handle.endsWith(`.${domain}`))
    if (host) return askHost(host.url, handle, signal)
    // Names that are reserved are nobody's.
    if ('error' in normalizeHost(handle, options)) return undefined
    const named = await readTxt(handle, options, signal)
    if (Array.isArray(named)) return named.length > 1 ? undefined : named[0]
    return readText(handle, options, named, signal)
  }
}

/** Accounts that the TXT records name; `none` without any, `unknown` when the name servers do not tell. */
async function readTxt(
  handle: Handle,
  { nameServers }: NameServers,
  signal: AbortSignal | undefined,
): Promise<Did[] | 'none' | 'unknown'> {
  signal?.throwIfAborted()
  const resolver = new Resolver(tries)
  if (nameServers) resolver.setServers(nameServers)
  const end = (): void => resolver.cancel()
  signal?.addEventListener('abort', end, { once: true })
  try {
    const records = (await resolver.resolveTxt(`_atproto.${handle}`)).map((parts) => parts.join(''))
    const dids = records.filter((text) => text.startsWith('did=')).map((text) => text.slice('did='.length))
    return dids.length === 0 ? 'none' : [...new Set(dids)].filter(isDid)
  } catch (error) {
    return error instanceof Error && 'code' in error && unknownCodes.has(error.code) ? 'none' : 'unknown'
  } finally {
    signal?.removeEventListener('abort', end)
  }
}

async function readText(
  handle: Handle,
  { fetch = safeFetch, ...options }: HandleResolverOptions,
  txt: 'none' | 'unknown',
  signal: AbortSignal | undefined,
): Promise<Did | undefined> {
  const { allowedPrivateHosts, nameServers } = options
  try {
    const { status, body } = await fetch(`https://${handle}/.well-known/atproto-did`, {
      allowedPrivateHosts,
      ...(nameServers && { nameServers }),
      bytesMax: textBytesMax,
      timeoutMs: httpMs,
      ...(signal && { signal }),
    })
    if (saysNothing(status)) throw new FetchError(`status ${status} for the handle ${handle}`)
    const text = body.toString('utf8').trim()
    if (status === 200 && isDid(text)) return text
  } catch (error) {
    if (!(error instanceof FetchError && error.isNameUnknown)) throw error
  }
  if (txt === 'unknown') throw new FetchError(`the name servers do not tell about ${handle}`)
  return undefined
}

async function askHost(
  url: string,
  handle: Handle,
  signal: AbortSignal | undefined,
): Promise<Did | undefined> {
  const method = `${url}/xrpc/com.atproto.identity.resolveHandle?handle=${encodeURIComponent(handle)}`
  const { status, body } = await safeFetch(method, {
    allowedPrivateHosts: [new URL(url).host],
    bytesMax: textBytesMax,
    timeoutMs: httpMs,
    ...(signal && { signal }),
  })
  if (status === 200) return readDid(body)
  if (status >= 400 && !saysNothing(status)) return undefined
  throw new FetchError(`status ${status} for the handle ${handle}`)
}

function saysNothing(status: number): boolean {
  return status >= 500 || busyStatuses.has(status)
}

function readDid(body: Buffer): Did | undefined {
  try {
    const answer: unknown = JSON.parse(body.toString('utf8'))
    const did: unknown =
      typeof answer === 'object' && answer !== null ? Reflect.get(answer, 'did') : undefined
    return isDid(did) ? did : undefined
  } catch {
    return undefined // not JSON: it names nobody
  }
}
