import { type AddressCount, XrpcError } from '@tributary/xrpc'

export interface PlaceLimits {
  consumersMax: number
  consumersPerAddressMax: number
}

/** When to come back: others come and go all the time. */
const retryAfter = { 'Retry-After': '60' }

/**
 * @param hasRoom whether another consumer gives way when all places are taken.
 * @throws XrpcError 429 `RateLimitExceeded` when there is no place for one more consumer.
 */
export function checkPlaces(
  consumers: AddressCount,
  limits: PlaceLimits,
  address: string,
  hasRoom: () => boolean,
): void {
  const here = consumers.of(address)
  if (here >= limits.consumersPerAddressMax) {
    const message = `Your address has ${here} connections open, which is the most: close one first`
    throw new XrpcError(429, 'RateLimitExceeded', message, retryAfter)
  }
  if (consumers.all >= limits.consumersMax && !hasRoom()) {
    const message = 'This relay has as many consumers as it takes: try again later'
    throw new XrpcError(429, 'RateLimitExceeded', message, retryAfter)
  }
}
