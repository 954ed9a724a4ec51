import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Setting } from '@tributary/settings'
import { loadLexicons } from '@tributary/xrpc'
import { relaySettings } from '../src/index.ts'
import { limitSettings } from '../src/policy/relay-limits.ts'

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

test('the limits have the same names and ranges in the settings, the operator’s methods and the document', () => {
  const limits = Object.entries<Setting<unknown>>(limitSettings)
  const names = limits.map(([name]) => name)
  const lexicon = (path: string): string => read(`lexicons/network/social/stream/relay/admin/${path}.json`)
  const { limits: shown } = (JSON.parse(lexicon('defs')) as { defs: { limits: LexiconObject } }).defs // its form
  const { main } = (JSON.parse(lexicon('updateSettings')) as LexiconProcedure).defs // its form
  const { actor, idempotencyKey, ...changes } = main.input.schema.properties
  assert.ok(actor && idempotencyKey)
  for (const properties of [shown.properties, changes]) {
    assert.deepEqual(Object.keys(properties), names)
    for (const [name, { form, isList }] of limits)
      if (!isList) assert.equal(formOf(properties[name]), form, name)
  }
  const [, table = ''] = /^The next settings are for an empty data directory([^]*?)^## /m.exec(docs) ?? []
  const rows = Array.from(table.matchAll(/^\| `(\w+)` \| ([^|,]+(?:,\d{3})*)/gm), ([, name, text = '']) => [
    name,
    text.replace(/[`, ]/g, ''),
  ])
  assert.deepEqual(
    rows,
    limits.map(([name, limit]) => [name, limit.format(limit.fallback) || 'none']),
  )
})

interface LexiconField {
  enum?: string[]
  minimum?: number
  maximum?: number
}

interface LexiconObject {
  properties: Record<string, LexiconField>
}

interface LexiconProcedure {
  defs: { main: { input: { schema: LexiconObject } } }
}

/** The accepted values of a field, in the words of a setting. */
function formOf({ enum: choices, minimum, maximum }: LexiconField = {}): string {
  return choices ? `one of ${choices.join(', ')}` : `an integer from ${minimum} to ${maximum}`
}
