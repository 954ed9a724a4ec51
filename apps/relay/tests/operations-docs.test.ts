import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { loadLexicons } from '@tributary/xrpc'
import { relaySettings } from '../src/index.ts'

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')
const docs = read('docs/relay-operations.md')
const code = ['relay-metrics.ts', 'sources/source-metrics.ts'].map((file) => read(`apps/relay/src/${file}`))
const metrics = code.flatMap((text) => Array.from(text.matchAll(/'relay_(\w+)'/g), ([, name = '']) => name))

test('every setting, operator method and metric is in the operators’ document', () => {
  const methods = [...loadLexicons()].flatMap(
    ({ id, defs }) => (defs['main'] && /^network\.social\.stream\.relay\.admin\.(\w+)$/.exec(id)?.[1]) ?? [],
  )
  const names = [...Object.keys(relaySettings.fields), ...methods, ...metrics]
  assert.ok(names.length > 80, `${names.length}`)
  assert.deepEqual(
    names.filter((name) => !docs.includes(`\`${name}\``)),
    [],
  )
})

test('the example alerts name metrics that there are', () => {
  const named = Array.from(
    read('contrib/prometheus-alerts.yml').matchAll(/\brelay_(\w+)/g),
    ([, name = '']) => name,
  )
  const bases = named.map((name) => name.replace(/_(bucket|count|sum)$/, ''))
  assert.ok(bases.length > 15)
  assert.deepEqual(
    bases.filter((name) => !metrics.includes(name)),
    [],
  )
})
