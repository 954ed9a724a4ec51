import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toBytes } from '@atcute/cbor'
import { cborHead, cborMap, cborText, fieldsOf, inOrder } from './cbor-grammar.ts'
import type { CborField } from './cbor-grammar.ts'
import { blockOf, linkTo } from './cid.ts'
import { encodeEvent } from './commit-event.ts'
import { strictFault } from './strict-decoders.ts'

const body = {
  seq: 7,
  did: 'did:plc:a',
  since: null,
  link: linkTo(blockOf('x').cid),
  of: toBytes(new Uint8Array(5)),
}
const one = Uint8Array.of(1)

function withFields(fields: readonly CborField[], isOrdered = true): Uint8Array {
  const all = [...fieldsOf(body), ...fields]
  return Buffer.concat([
    cborMap(inOrder(fieldsOf({ op: 1, t: '#x' }))),
    cborMap(isOrdered ? inOrder(all) : all),
  ])
}

test('a message that every decoder reads has no fault', () => {
  assert.equal(strictFault(encodeEvent('#sync', body)), undefined)
  assert.equal(strictFault(withFields([['unknown', cborMap([['a', one]])]])), undefined)
})

test('a message that some decoder refuses, reads otherwise or writes otherwise has a fault', () => {
  const wrong: Record<string, Uint8Array> = {
    'keys out of order': withFields([['a', one]], false),
    'a key twice': withFields([['seq', one]]),
    'a prototype': withFields([['__proto__', cborMap([['a', one]])]]),
    'a constructor': withFields([['x', cborMap([['constructor', one]])]]),
    'a number above 2^53': withFields([['x', cborHead(0, 2n ** 53n)]]),
    'a number in a long form': withFields([['x', cborHead(0, 1, 8)]]),
    'a link that is no CID': withFields([
      ['x', Buffer.concat([cborHead(6, 42), cborHead(2, 2), Buffer.alloc(2)])],
    ]),
    'a text that is not UTF-8': withFields([['x', Buffer.concat([cborHead(3, 1), Uint8Array.of(0xff)])]]),
    'bytes at the end': Buffer.concat([withFields([]), one]),
    'no payload': cborMap(fieldsOf({ op: 1 })),
    'a text for a map': Buffer.concat([withFields([]).subarray(0, 3), cborText('x')]),
  }
  for (const [what, message] of Object.entries(wrong)) assert.notEqual(strictFault(message), undefined, what)
})
