import { FetchError, safeFetch, type PrivateHosts } from '@tributary/identity'
import { isDid } from '@tributary/protocol'

const probe = { timeoutMs: 5000, bytesMax: 64 * 1024, redirectsMax: 0 }

/** A host did not show that it is a PDS. The message says what was wrong, in our words. */
export class HostProbeError extends Error {
  override readonly name = 'HostProbeError'
}

/**
 * Asks a host whether it is a PDS: `com.atproto.server.describeServer`, within 5 s and 64 kB, never at a private
 * address that was not allowed. @throws HostProbeError
 */
export async function probeHost(url: string, options: PrivateHosts & { userAgent: string }): Promise<void> {
  const target = `${url.replace(/^ws/, 'http')}/xrpc/com.atproto.server.describeServer`
  const headers = { 'user-agent': options.userAgent, accept: 'application/json' }
  try {
    const { status, body } = await safeFetch(target, { ...options, ...probe, headers })
    if (status !== 200) throw new HostProbeError(`describeServer was answered with status ${status}`)
    const answer: unknown = JSON.parse(body.toString('utf8'))
    const did = typeof answer === 'object' && answer !== null && 'did' in answer ? answer.did : undefined
    if (!isDid(did)) throw new HostProbeError('describeServer was answered without the DID of a server')
  } catch (cause) {
    if (cause instanceof HostProbeError) throw cause
    if (cause instanceof FetchError) throw new HostProbeError(cause.message, { cause })
    if (cause instanceof SyntaxError)
      throw new HostProbeError('describeServer was not answered with JSON', { cause })
    throw cause
  }
}
