/** The packed client in a real Chromium: a page reads an archive and goes on live, with a key and without one. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtempDisposable, readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Browser } from '@tributary/testkit'
import { packClient } from '../../../tools/pack.ts'
import { answerError, rows, StreamServer } from './stream-server.ts'

const run = promisify(execFile)

interface Manifest {
  dependencies?: Record<string, string>
  exports?: unknown
  imports?: Record<string, unknown>
  module?: string
}

function directoryOf(name: string, place: string): string {
  const found = join(place, 'node_modules', name)
  if (existsSync(join(found, 'package.json'))) return found
  if (place === dirname(place)) throw new Error(`${name} is not installed`)
  return directoryOf(name, dirname(place))
}

/** The file that a browser takes of a package's exports. */
function entryOf(exports: unknown): string | undefined {
  if (typeof exports === 'string') return exports
  const conditions = (exports ?? {}) as Record<string, unknown> // as Node's documentation has it
  for (const name of ['.', 'browser', 'import', 'default']) {
    const entry = name in conditions ? entryOf(conditions[name]) : undefined
    if (entry !== undefined) return entry
  }
  return undefined
}

interface Modules {
  /** As an import map has them, with those that a package imports of itself. */
  imports: Record<string, string>
  scopes: Record<string, Record<string, string>>
  /** By the names of the packages. */
  directories: Map<string, string>
}

/** Where the modules are that the client imports by name. */
function modulesFor(names: readonly string[]): Modules {
  const modules: Modules = { imports: {}, scopes: {}, directories: new Map() }
  const visit = (name: string, place: string): void => {
    if (modules.directories.has(name)) return
    const directory = directoryOf(name, place)
    modules.directories.set(name, directory)
    const manifest = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Manifest // as npm installed it
    const pathOf = (file: string): string => `/modules/${name}/${file.replace(/^\.\//, '')}`
    modules.imports[name] = pathOf(entryOf(manifest.exports) ?? manifest.module ?? 'index.js')
    modules.scopes[`/modules/${name}/`] = Object.fromEntries(
      Object.entries(manifest.imports ?? {}).map(([own, file]) => [own, pathOf(entryOf(file) ?? '')]),
    )
    for (const needed of Object.keys(manifest.dependencies ?? {})) visit(needed, directory)
  }
  for (const name of names) visit(name, import.meta.dirname)
  return modules
}

const script = `
import { createStreamClient, StreamError } from '@tributary/client'
async function read(options, replay) {
  const seqs = []
  try {
    for await (const { events } of createStreamClient({ url: location.origin, ...options }).replay(replay))
      for (const event of events) if (event.record.title === 'activity ' + event.seq && event.cid) seqs.push(event.seq)
    return seqs
  } catch (error) {
    return error instanceof StreamError ? error.code : String(error.stack)
  }
}
globalThis.result = {
  withKey: await read({ apiKey: 'key' }, { throughSeq: 55 }),
  withoutKey: await read({}, { cursor: 50, throughSeq: 55 }),
  refused: await read({ retry: { firstMs: 1, maxMs: 4 } }, { cursor: 10, throughSeq: 55 }),
}
`

test('a page in Chromium reads the archive and tails, with a key and without one', async (t) => {
  await using work = await mkdtempDisposable(join(tmpdir(), 'tributary-browser-'))
  await run('tar', ['xzf', packClient(work.path), '-C', work.path])
  const { imports, scopes, directories } = modulesFor([
    '@atcute/cbor',
    '@atcute/cid',
    '@atcute/uint8array',
    'hash-wasm',
  ])
  const importMap = {
    imports: { ...imports, '@tributary/client': '/client/packages/client/src/index.js' },
    scopes,
  }
  const page = `<script type="importmap">${JSON.stringify(importMap)}</script><script type="module">${script}</script>`

  await using server = await StreamServer.start()
  await server.seal(rows(1, 30), rows(31, 50))
  await server.append(...rows(51, 55))
  server.refuse = (query) =>
    Number(query.get('cursor')) < 50 ? { status: 400, error: 'CursorTooOld' } : undefined
  const fileOf = (path: string): string | undefined => {
    if (path.startsWith('/client/')) return join(work.path, 'package/dist', path.slice('/client/'.length))
    const [, name = '', file = ''] = /^\/modules\/((?:@[^/]+\/)?[^/]+)\/(.+)$/.exec(path) ?? []
    const directory = directories.get(name)
    return directory === undefined ? undefined : join(directory, file)
  }
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url ?? ''
    if (path === '/') response.setHeader('content-type', 'text/html').end(page)
    else {
      const bytes = await readFile(fileOf(path) ?? '').catch(() => undefined)
      if (bytes === undefined) answerError(response, 404, 'NotFound')
      else response.setHeader('content-type', 'text/javascript').end(bytes)
    }
  }
  server.intercept = (method, request, response) => {
    const isArchive = ['planSnapshot', 'getSegment', 'getBlock'].includes(method)
    if (isArchive && request.headers.authorization !== 'Bearer key') {
      answerError(response, 401, 'AuthenticationRequired')
      return true
    }
    if (request.url?.startsWith('/xrpc/') || request.url === '/ready') return false
    void answer(request, response)
    return true
  }

  await using browser = await Browser.open(server.url)
  if (browser === undefined) return t.skip('there is no Chromium for this machine')
  const all = Array.from({ length: 55 }, (_, at) => at + 1)
  assert.deepEqual(await browser.until('globalThis.result'), {
    withKey: all,
    withoutKey: all.slice(50),
    refused: 'AuthenticationRequired',
  })
})
