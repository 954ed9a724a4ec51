/** The operator's methods about keys of the archive. A key is in the answer that creates it, and nowhere else. */
import { isDeepStrictEqual } from 'node:util'
import { addProcedure, addQuery, datetime, type OperationRequest } from '@tributary/operations'
import { XrpcError } from '@tributary/xrpc'
import { type ApiKey, defaultQuota, isRevoked, type KeyQuota, type KeyUse } from '../policy/api-keys.ts'
import { operatorPrefix, type OperatorParts } from './operator-parts.ts'

const secondMs = 1000

export function addKeyMethods({ server, operations, keys }: OperatorParts): void {
  const effect = (): void => keys.reload()
  const goodKey = (id: number): ApiKey => {
    const key = keys.known(id)
    if (!isRevoked(key)) return key
    throw new XrpcError(400, 'KeyRevoked', `key ${id} was revoked: createKey makes another one`)
  }
  /** Makes a key. A repeat of the request learns its number and not the key, which is stored nowhere. */
  const make = async (
    request: OperationRequest,
    prepare: () => { owner: string; quota: KeyQuota; before?: ApiKey; also?: () => void },
  ): Promise<object> => {
    let made: string | undefined
    const output = await operations.run(request, () => () => {
      const { owner, quota, before, also } = prepare()
      const { id, key } = keys.create(owner, request.actor, quota, Date.now())
      also?.()
      made = key
      const after = { id, owner, ...quota }
      const earlier = before === undefined ? {} : { before: { id: before.id } }
      return { subject: `key ${id}`, ...earlier, after, output: { id }, effect }
    })
    return made === undefined ? output : { ...output, key: made }
  }

  addQuery(server, operatorPrefix, 'listKeys', () => ({ keys: keys.list().map(describe) }))
  addProcedure<Partial<KeyQuota> & { owner: string }>(
    server,
    operatorPrefix,
    'createKey',
    async ({ owner, ...quota }, request) =>
      await make(request, () => ({ owner, quota: { ...defaultQuota, ...quota } })),
  )
  addProcedure<{ id: number; graceSeconds?: number }>(
    server,
    operatorPrefix,
    'rotateKey',
    async ({ id, graceSeconds = 0 }, request) =>
      await make(request, () => {
        const before = goodKey(id)
        const { owner, requestsPerHour, megabytesPerDay } = before
        const also = (): void => keys.revoke(id, Date.now() + graceSeconds * secondMs)
        return { owner, quota: { requestsPerHour, megabytesPerDay }, before, also }
      }),
  )
  addProcedure<Partial<KeyQuota> & { id: number }>(
    server,
    operatorPrefix,
    'updateKey',
    async ({ id, ...change }, request) =>
      await operations.run(request, () => () => {
        const { requestsPerHour, megabytesPerDay } = goodKey(id)
        if (Object.keys(change).length === 0)
          throw new XrpcError(400, 'InvalidRequest', 'give requestsPerHour, megabytesPerDay or both')
        const before = { requestsPerHour, megabytesPerDay }
        const after = { ...before, ...change }
        const isChanged = !isDeepStrictEqual(before, after)
        if (isChanged) keys.setQuota(id, after)
        return { subject: `key ${id}`, before, after, output: { id }, isChanged, effect }
      }),
  )
  addProcedure<{ id: number }>(
    server,
    operatorPrefix,
    'revokeKey',
    async ({ id }, request) =>
      await operations.run(request, () => () => {
        const { owner } = keys.known(id)
        keys.revoke(id, Date.now())
        return { subject: `key ${id}`, before: { owner }, output: { id }, effect }
      }),
  )
}

function describe({ createdAtMs, revokedAtMs, usedAtMs, ...key }: KeyUse): object {
  return {
    ...key,
    ...datetime('createdAt', createdAtMs),
    ...datetime('revokedAt', revokedAtMs),
    ...datetime('usedAt', usedAtMs),
  }
}
