import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSettings } from '@tributary/settings'
import { streamSettings } from './settings.ts'

test('a key of the archive that can be guessed is refused, and how to make one is said', () => {
  const keysOf = (apiKeys: string) =>
    readSettings(streamSettings, { env: {}, args: ['--api-keys', apiKeys, '--collections', 'a.b.c'] }).apiKeys
  for (const bad of ['reader:x', 'reader:0123456789abcde', 'reader:0123456789 abcdef', '0123456789abcdef'])
    assert.throws(() => keysOf(bad), /openssl rand -hex 16/)
  assert.deepEqual(keysOf('reader:0123456789abcdef'), ['reader:0123456789abcdef'])
})
