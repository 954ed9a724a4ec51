import assert from 'node:assert/strict'
import { registerHooks } from 'node:module'
import { test } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import { frameMessage } from '@tributary/fanout'
import { EventDictionary } from './event-dictionary.ts'
import { ownRendition } from './rendition.ts'

test('after an encoder that could not be loaded, the next subscriber gets one', async () => {
  const dictionary = new EventDictionary()
  const hooks = registerHooks({
    resolve: (specifier, context, next) => {
      if (specifier === 'zstd-codec') throw new Error('too many open files')
      return next(specifier, context)
    },
  })
  try {
    await assert.rejects(dictionary.compressed(ownRendition), /too many open files/)
  } finally {
    hooks.deregister()
  }
  const rendition = await dictionary.compressed(ownRendition)
  const message = '{"$type":"message"}'
  // Two bytes of a WebSocket frame come before the message.
  const compressed = rendition.frame(frameMessage('text', Buffer.from(message))).subarray(2)
  assert.equal(zstdDecompressSync(compressed, { dictionary: dictionary.bytes }).toString(), message)
})
