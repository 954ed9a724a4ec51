import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readSettings } from '@tributary/settings'
import { createLogger, type LoggerOptions } from '@tributary/telemetry'
import { startStream, streamSettings, type StreamSettings } from '../src/index.ts'

export const apiKey = 'test-key-0123456789'
export const operatorToken = 'test-operator-token'

export interface TestStream extends AsyncDisposable {
  url: string
  dataDirectory: string
  /** Value of a metric whose labels contain the given text. */
  metric(name: string, labels?: string): Promise<number>
  /** A request to the archive, with the key unless other headers are given. */
  archive(path: string, init?: RequestInit): Promise<Response>
  /** Seals what there is. The newest seq that the archive methods then show. */
  seal(): Promise<number>
}

/** A stream in this process on a free port; without a data directory, in one that goes with it. */
export async function startTestStream(
  settings: Partial<StreamSettings>,
  log?: LoggerOptions['destination'],
): Promise<TestStream> {
  const dataDirectory = settings.dataDirectory ?? mkdtempSync(join(tmpdir(), 'stream-'))
  const service = await startStream(
    {
      ...readSettings(streamSettings, { env: {} }),
      port: 0,
      dataDirectory,
      apiKeys: [`test:${apiKey}`],
      operatorToken,
      // Hosts of tests are no relays, and answer for no directory.
      backfill: 'off',
      diskFreeMegabytesMin: 0,
      ...settings,
    },
    { logger: createLogger('stream', log ? { destination: log } : { level: 'silent' }) },
  )
  const url = service.address
  const xrpc = (path: string, init?: RequestInit): Promise<Response> =>
    fetch(`${url}/xrpc/network.social.stream.${path}`, init)
  return {
    url,
    dataDirectory,
    async metric(name, labels = '') {
      const text = await (await fetch(`${url}/metrics`)).text()
      const lines = text.split('\n').filter((line) => line.startsWith(name) && line.includes(labels))
      return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
    },
    archive: (path, init = { headers: { Authorization: `Bearer ${apiKey}` } }) => xrpc(path, init),
    async seal() {
      const headers = { Authorization: `Bearer ${operatorToken}` }
      const response = await xrpc('admin.sealSegment', { method: 'POST', headers })
      const { segment } = (await response.json()) as { segment?: { maxSeq: number } } // by its lexicon
      return segment?.maxSeq ?? 0
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      if (settings.dataDirectory === undefined) rmSync(dataDirectory, { recursive: true, force: true })
    },
  }
}

/** Calls an operator method of a stream: with an input a procedure, without one a query. */
export async function operate(
  { url }: Pick<TestStream, 'url'>,
  method: string,
  input?: object,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${url}/xrpc/network.social.stream.admin.${method}`, {
    headers: { Authorization: `Bearer ${operatorToken}`, 'content-type': 'application/json' },
    ...(input && { method: 'POST', body: JSON.stringify(input) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> } // XRPC answers are objects
}
