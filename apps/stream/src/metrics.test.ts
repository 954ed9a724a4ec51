import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStreamMetrics } from './metrics.ts'

test('defects are counted from the start on, so that an alert sees the first one as an increase', async () => {
  const { all } = createStreamMetrics()
  assert.match(await all.text(), /^stream_upstream_events_refused_total\{reason="internal-error".*\} 0$/m)
})
