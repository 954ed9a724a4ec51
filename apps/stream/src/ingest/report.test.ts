import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogger } from '@tributary/telemetry'
import { createStreamMetrics } from '../metrics.ts'
import { IngestReport } from './report.ts'

test('what a relay says in words is logged in brief, however long it is', () => {
  const lines: string[] = []
  const logger = createLogger('stream', { destination: { write: (line) => void lines.push(line) } })
  const report = new IngestReport(logger, createStreamMetrics())
  const long = 'x'.repeat(1_000_000)
  report.onNotice({ is: 'outdated-cursor', cursor: 1, message: long })
  report.onNotice({ is: 'relay-error', error: long, message: long })
  assert.equal(lines.length, 2)
  for (const line of lines) assert.ok(line.includes('xxx') && line.length < 1000, `${line.length}`)
})
