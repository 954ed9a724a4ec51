import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { XrpcError } from '@tributary/xrpc'
import fc from 'fast-check'
import { readV1Query } from './v1-params.ts'
import { checkFilter, names, wish } from './v1-wishes.ts'

test('any query gives a checked filter and a cursor, or a refusal with 400', () => {
  const query = fc.array(fc.tuple(fc.constantFrom(...names), wish), { maxLength: 8 })
  fc.assert(
    fc.property(query, (pairs) => {
      const search = new URLSearchParams()
      for (const [name, value] of pairs) search.append(name, value.toWellFormed())
      const request = { url: `/subscribe?${search.toString()}`, headers: {} } as unknown as IncomingMessage // all that is read
      try {
        const { filter, cursor } = readV1Query(request)
        checkFilter(filter)
        assert.ok(cursor === undefined || (Number.isInteger(cursor) && cursor >= 0))
      } catch (error) {
        assert.ok(error instanceof XrpcError && error.status === 400, String(error))
      }
    }),
  )
})
