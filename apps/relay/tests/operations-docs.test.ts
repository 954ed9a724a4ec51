import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { opFaults, refusalReasons } from '@tributary/repo-verify'
import type { Setting } from '@tributary/settings'
import { createMetrics } from '@tributary/telemetry'
import { loadLexicons } from '@tributary/xrpc'
import { relaySettings } from '../src/index.ts'
import { createRelayMetrics } from '../src/relay-metrics.ts'
import { relayRefusals } from '../src/refusals.ts'
import { noticeKinds } from '../src/policy/notice-rows.ts'
import { limitSettings } from '../src/policy/relay-limits.ts'
import { hostStatuses } from '../src/sources/source-state.ts'

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

test('every setting of the other services, and every operator method of the stream, is in a document', () => {
  for (const service of ['stream', 'index', 'feed']) {
    const text = read(`docs/${service === 'stream' ? 'stream' : 'index'}-operations.md`)
    const code = read(`apps/${service}/src/settings.ts`)
    const settings = Array.from(code.matchAll(/^ {2,4}(\w+): \w+\(/gm), ([, name = '']) => name)
    const methods = [...loadLexicons()].flatMap(
      ({ id, defs }) => (defs['main'] && /^network\.social\.stream\.admin\.(\w+)$/.exec(id)?.[1]) ?? [],
    )
    const names = service === 'stream' ? [...settings, ...methods] : settings
    assert.ok(names.length > 10, service)
    assert.deepEqual(
      names.filter((name) => !text.includes(`\`${name}\``)),
      [],
    )
  }
})

test('every state of a source, and every reason why one is not read, is in the operators’ document', () => {
  const [, reasons = ''] =
    /^export type PauseReason = (.*)$/m.exec(read('apps/relay/src/sources/read-gate.ts')) ?? []
  const names = [
    ...Object.keys(hostStatuses),
    ...Array.from(reasons.matchAll(/'([\w-]+)'/g), ([, name = '']) => name),
  ]
  assert.ok(names.length > 12, `${names.length}`)
  assert.deepEqual(
    names.filter((name) => !docs.includes(`\`${name}\``)),
    [],
  )
})

test('every reason of a refusal, of relay and stream, is a row of the document of its operators', () => {
  const ofStream = namesOf('apps/stream/src/ingest/ingest-observer.ts', 'eventRefusals')
  const ofOperations = [...opFaults, ...namesOf('apps/stream/src/ingest/event-rows.ts', 'droppedOpReasons')]
  assert.ok(ofStream.length > 5 && ofOperations.length > 3, `${ofStream.length}, ${ofOperations.length}`)
  assert.deepEqual(withoutRow('docs/relay-operations.md', relayRefusals), [])
  const ofEvents = [...refusalReasons, ...ofStream]
  assert.deepEqual(withoutRow('docs/stream-operations.md', [...ofEvents, ...ofOperations]), [])
})

test('every kind of notice, and every cause of a disconnect, is a row of the operators’ document', () => {
  const kinds = noticeKinds
  const causes = namesOf('packages/subscription/src/subscription.ts', 'EndingCause')
  assert.ok(kinds.length > 8 && causes.length > 4, `${kinds.length}, ${causes.length}`)
  assert.deepEqual(withoutRow('docs/relay-operations.md', [...kinds, ...causes, 'other']), [])
})

const metricFiles = {
  relay: ['relay/src/relay-metrics.ts', 'relay/src/sources/source-metrics.ts'],
  stream: ['stream/src/metrics.ts', 'stream/src/serve/status-routes.ts'],
  index: ['index/src/serve/index-metrics.ts'],
  feed: ['feed/src/metrics.ts'],
}

test('every metric of stream, index and feed is in the document of its operators', () => {
  for (const service of ['stream', 'index', 'feed'] as const) {
    const code = metricFiles[service].map((file) => read(`apps/${file}`)).join('')
    const text = read(`docs/${service === 'stream' ? 'stream' : 'index'}-operations.md`)
    const names = Array.from(code.matchAll(new RegExp(`'${service}_(\\w+)'`, 'g')), ([, name = '']) => name)
    assert.ok(names.length > 3, service)
    assert.deepEqual(
      names.filter((name) => !text.includes(`\`${name}\``) && !text.includes(`\`${service}_${name}\``)),
      [],
    )
  }
})

test('the example alerts name metrics that there are, and labels that count', () => {
  const alerts = read('contrib/prometheus-alerts.yml')
  for (const [service, files] of Object.entries(metricFiles)) {
    const named = alerts.match(new RegExp(`\\b${service}_\\w+`, 'g')) ?? []
    const known = files.map((file) => read(`apps/${file}`)).join('')
    assert.ok(named.length > 2, service)
    assert.deepEqual(
      named.filter((name) => !known.includes(`'${name.replace(/_(bucket|count|sum)$/, '')}'`)),
      [],
    )
    assert.ok(alerts.includes(`up{job="tributary-${service}"} == 0`), `an alert on a ${service} that is gone`)
  }
  for (const metric of read('docs/security.md').match(/(?<=`)(relay|stream|nodejs)_\w+(?=`)/g) ?? [])
    assert.ok(alerts.includes(metric), `an alert on ${metric}, as docs/security.md says`)
  const reasons = Array.from(
    alerts.matchAll(/relay_events_refused_total\{reason="([\w-]+)"/g),
    ([, name]) => name,
  )
  assert.ok(reasons.length > 1)
  assert.deepEqual(
    reasons.filter((reason) => !relayRefusals.some((each) => each === reason)),
    [],
  )
})

test('what alerts count is there from the start, so that they see the first one as an increase', async () => {
  const counted = createMetrics('relay')
  createRelayMetrics(counted)
  const lines = (await counted.text()).split('\n')
  const isThere = (name: string, label: string): boolean =>
    lines.some((line) => line.startsWith(`${name}{`) && line.includes(label) && line.endsWith(' 0'))
  for (const reason of relayRefusals)
    assert.ok(isThere('relay_events_refused_total', `reason="${reason}"`), reason)
  assert.ok(isThere('relay_consumers_ended_total', 'error="ConsumerTooSlow"'))
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

/** The texts of a type that is a union of them, or of a list, as its file has them. */
function namesOf(path: string, name: string): string[] {
  const [, union = ''] =
    new RegExp(`^export (?:type|const) ${name} =([^]*?)\\n\\n`, 'm').exec(read(path)) ?? []
  const code = union.replaceAll(/\/\*\*[^]*?\*\//g, '')
  return Array.from(code.matchAll(/'([\w-]+)'/g), ([, name = '']) => name)
}

/** Those of these names that no table of a document has in the first column. */
function withoutRow(path: string, names: readonly string[]): string[] {
  const rows = read(path).match(/^\| `[^|]+/gm) ?? []
  return names.filter((name) => !rows.some((row) => row.includes(`\`${name}\``)))
}

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
