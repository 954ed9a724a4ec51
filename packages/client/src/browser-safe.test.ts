import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

/** Every module specifier that a file of ours imports or re-exports for its values. */
function importsOf(file: string): string[] {
  const source = readFileSync(new URL(file), 'utf8')
  const statements = source.matchAll(
    /^(?:import|export)\s(?!type\s)[^'"]*?from '([^']+)'|^import '([^']+)'/gm,
  )
  return [...statements].map(([, from, bare]) => from ?? bare ?? '')
}

test('the root entry reaches nothing that only Node has', () => {
  const waiting = [new URL('index.ts', import.meta.url).href]
  const seen = new Set<string>()
  const foreign = new Set<string>()
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (seen.has(file)) continue
    seen.add(file)
    for (const specifier of importsOf(file)) {
      if (specifier.startsWith('.')) waiting.push(new URL(specifier, file).href)
      else if (specifier.startsWith('@tributary/')) waiting.push(import.meta.resolve(specifier))
      else foreign.add(specifier)
    }
  }
  assert.ok(seen.size > 20, 'the walk went through the packages')
  assert.deepEqual([...foreign].toSorted(), [
    '@atcute/cbor',
    '@atcute/cid',
    '@atcute/uint8array',
    'hash-wasm',
  ])
})
