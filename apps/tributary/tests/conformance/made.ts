/** Names, times and contents that the cases are made of. */
import { hash } from 'node:crypto'
import type { Did } from '@tributary/protocol'

export const noon = '2026-03-04T12:00:00.000Z'

export interface Ref {
  readonly uri: string
  readonly cid: string
}

export function didOf(name: string): Did {
  return `did:plc:${name.toLowerCase().padEnd(24, 'z')}` as Did // letters that fit
}

/** A content address of its form that differs with the content. */
export function cidOf(value: object): string {
  const bytes = Buffer.concat([
    Buffer.from([1, 0x71, 0x12, 0x20]),
    hash('sha256', JSON.stringify(value), 'buffer'),
  ])
  const bits = [...bytes]
    .map((byte) => byte.toString(2).padStart(8, '0'))
    .join('')
    .padEnd(290, '0')
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'
  return `b${bits.replaceAll(/.{5}/g, (five) => alphabet[Number.parseInt(five, 2)] ?? '')}`
}

/** A moment of the day that the cases play on. */
export function at(time: string): string {
  return `2026-03-04T${time}${time.length === 5 ? ':00' : ''}Z`
}

const blobCid = 'bafkreift5ympvzivnjvvkjx3stgiwwvwbioqgylc4jfg7fddgerfthwfim'

export function blob(fields: object = {}): object {
  return { $type: 'blob', ref: { $link: blobCid }, mimeType: 'image/png', size: 2000, ...fields }
}

export function smallImage(fields: object = {}): object {
  return { $type: 'org.impact.defs#smallImage', image: blob(fields) }
}

export function largeImage(fields: object = {}): object {
  return { $type: 'org.impact.defs#largeImage', image: blob(fields) }
}

export function smallBlob(fields: object = {}): object {
  return { $type: 'org.impact.defs#smallBlob', blob: blob(fields) }
}
