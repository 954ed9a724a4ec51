import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closestName } from './closest-name.ts'

test('a mistyped name leads to the one that was meant, and another word to none', () => {
  const names = ['--port', '--sources', '--data-directory', '--log-level']
  for (const [typed, meant] of [
    ['--prot', '--port'],
    ['--sorces', '--sources'],
    ['--source', '--sources'],
    ['--data-dir', undefined],
    ['--datadirectory', '--data-directory'],
    ['--loglevel', '--log-level'],
    ['--verbose', undefined],
    ['--x', undefined],
    ['', undefined],
    ['-'.repeat(1_000_000), undefined],
  ] as const)
    assert.equal(closestName(typed, names), meant, typed.slice(0, 30))
  assert.equal(closestName('hsots', ['log', 'hosts', 'bans']), 'hosts')
})
