import { safeFetch } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { parseDidKey, type SigningKey } from '@tributary/repo-verify'

/** A key that an account signed with, and when another one took its place, in milliseconds since 1970. */
export interface EarlierKey {
  key: SigningKey
  untilMs: number
}

const logBytesMax = 4 * 1024 * 1024

/** An entry of a PLC audit log, old or new form of the operation. */
interface LogEntry {
  createdAt?: unknown
  nullified?: unknown
  operation?: { signingKey?: unknown; verificationMethods?: { atproto?: unknown } }
}

/**
 * The keys that a `did:plc` had before its present one, as the PLC directory's audit log tells. None for other methods,
 * which keep no history. @throws FetchError
 */
export async function earlierKeysOf(
  did: Did,
  { plcUrl, allowedPrivateHosts }: { plcUrl: string; allowedPrivateHosts: readonly string[] },
): Promise<EarlierKey[]> {
  if (!did.startsWith('did:plc:')) return []
  const own = new URL(plcUrl).host
  const response = await safeFetch(`${plcUrl.replace(/\/$/, '')}/${did}/log/audit`, {
    allowedPrivateHosts: [...allowedPrivateHosts, own],
    bytesMax: logBytesMax,
  })
  if (response.status !== 200) return []
  return readKeys(response.body.toString())
}

function readKeys(text: string): EarlierKey[] {
  let log: unknown
  try {
    log = JSON.parse(text)
  } catch {
    return []
  }
  const entries = (Array.isArray(log) ? (log as LogEntry[]) : []).filter(
    ({ nullified }) => nullified !== true,
  ) // every field is checked below
  return entries.flatMap(({ operation }, i) => {
    const name = operation?.verificationMethods?.atproto ?? operation?.signingKey
    const key = typeof name === 'string' ? parseDidKey(name) : undefined
    const untilMs = Date.parse(String(entries[i + 1]?.createdAt))
    return key && Number.isFinite(untilMs) ? [{ key, untilMs }] : []
  })
}
