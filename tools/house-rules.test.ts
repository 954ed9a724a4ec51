/** Rules of this repository that a linter cannot express. Each failure lists the places. */
import assert from 'node:assert/strict'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { root, textOf, trackedFiles } from './tracked-files.ts'

const linesMax = 500
/** A file over the limit opens with a comment that contains this, and says why it is one piece. */
const onePiece = /one piece/i

const files = trackedFiles()
const sources = files.filter((file) => /\.(ts|mjs|js)$/.test(file))

/** `packages/xrpc` for `packages/xrpc/src/params.ts`; undefined outside packages and apps. */
function workspaceOf(file: string): string | undefined {
  return /^((?:packages|apps)\/[^/]+)\//.exec(file)?.[1]
}

/** What a source file imports: the specifier, and the workspace it leads to if that is one of ours. */
function importsOf(file: string): { specifier: string; target: string | undefined }[] {
  const text = textOf(file) ?? ''
  const specifiers = [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'([^'\n]+)'/g)].map(
    (match) => match[1] ?? '',
  )
  return specifiers.map((specifier) => {
    const folder = /^@tributary\/([^/]+)/.exec(specifier)?.[1]
    if (folder !== undefined) return { specifier, target: workspaceNamed(folder) }
    if (!specifier.startsWith('.')) return { specifier, target: undefined }
    return { specifier, target: workspaceOf(relative(root, join(root, dirname(file), specifier))) }
  })
}

function workspaceNamed(folder: string): string | undefined {
  return ['packages', 'apps']
    .map((kind) => `${kind}/${folder}`)
    .find((path) => files.includes(`${path}/package.json`))
}

/** Every import that leads out of its own workspace, as `file imports specifier`, if `isForbidden`. */
function wallBreaks(isForbidden: (from: string, target: string, file: string) => boolean): string[] {
  return sources.flatMap((file) => {
    const from = workspaceOf(file)
    if (from === undefined) return []
    return importsOf(file)
      .filter(({ target }) => target !== undefined && target !== from && isForbidden(from, target, file))
      .map(({ specifier }) => `${file} imports ${specifier}`)
  })
}

test('all packages have the version of the repository, which the services tell', () => {
  const { version } = JSON.parse(textOf('package.json') ?? '') as { version: string } // npm read it before
  const others = files
    .filter((file) => /^(packages|apps)\/[^/]+\/package\.json$/.test(file))
    .filter((file) => (JSON.parse(textOf(file) ?? '') as { version: string }).version !== version) // likewise
  assert.deepEqual(others, [])
})

test('nobody is told to run node_modules/.bin/node, which is any of the versions that are installed for tests', () => {
  const own = relative(root, import.meta.filename)
  assert.deepEqual(
    files.filter((file) => file !== own && /\.bin\/node(?![\w-])/.test(textOf(file) ?? '')),
    [],
  )
})

test('packages do not import apps', () => {
  assert.deepEqual(
    wallBreaks((from, target) => from.startsWith('packages/') && target.startsWith('apps/')),
    [],
  )
})

test('apps do not import each other; tributary starts the others as processes and may know their settings', () => {
  const breaks = wallBreaks(
    (from, target) => from.startsWith('apps/') && target.startsWith('apps/') && from !== 'apps/tributary',
  )
  assert.deepEqual(breaks, [])
})

test('workspaces import each other by name, so that only what index.ts exports is used', () => {
  const breaks = sources.flatMap((file) => {
    const from = workspaceOf(file)
    return importsOf(file)
      .filter(({ specifier, target }) => specifier.startsWith('.') && target !== undefined && target !== from)
      .map(({ specifier }) => `${file} imports ${specifier}`)
  })
  assert.deepEqual(breaks, [])
})

test('the testkit is used by tests, the demo and the bench only', () => {
  const isShipped = (file: string): boolean => !/\.test\.ts$|\/tests\/|\/demo[/.-]/.test(file)
  assert.deepEqual(
    wallBreaks((_from, target, file) => target === 'packages/testkit' && isShipped(file)),
    [],
  )
})

test('protocol imports nothing of ours and nothing from Node', () => {
  const breaks = sources
    .filter((file) => file.startsWith('packages/protocol/src/') && !file.includes('.test.'))
    .flatMap((file) => importsOf(file).map(({ specifier }) => `${file} imports ${specifier}`))
    .filter((line) => / imports (node:|@tributary\/)/.test(line))
  assert.deepEqual(breaks, [])
})

test('only settings and the testkit touch the environment of the process', () => {
  const breaks = sources.filter(
    (file) =>
      /^(packages|apps|bench)\//.test(file) &&
      !/^packages\/(settings|testkit)\//.test(file) &&
      /\bprocess\s*\.\s*env\b/.test(textOf(file) ?? ''),
  )
  assert.deepEqual(breaks, [])
})

/** Files that run where somebody has installed us: no tests, and nothing of the demo. */
const shipped = sources.filter(
  (file) =>
    /^(packages|apps)\/[^/]+\/src\//.test(file) &&
    !/\.test\.ts$|^packages\/testkit\/|\/demo[/.-]|\/start-/.test(file),
)

test('what is shipped imports nothing but types from node:http, for an import of a value takes 3 MB of memory', () => {
  const breaks = shipped.filter((file) => /^import (?!type\b)[^\n]*'node:http'/m.test(textOf(file) ?? ''))
  assert.deepEqual(breaks, [])
})

test('services have one SQLite in memory: only commands open databases with that of Node, which takes 2 MB', () => {
  const breaks = shipped
    .filter((file) => !file.startsWith('apps/tributary/'))
    .filter((file) => /^import (?!type\b)[^\n]*'node:sqlite'/m.test(textOf(file) ?? ''))
  assert.deepEqual(breaks, [])
})

test(`a source file has at most ${linesMax} lines, or says at its top why it is one piece`, () => {
  const breaks = sources.filter((file) => {
    const lines = (textOf(file) ?? '').split('\n')
    return lines.length - 1 > linesMax && !onePiece.test(lines.slice(0, 15).join('\n'))
  })
  assert.deepEqual(breaks, [])
})

test('no file names a package registry or a folder of the machine it was written on', () => {
  const forbidden = [
    /\bregistry\.[a-z0-9-]+\.[a-z]{2,}/i,
    /(?<![\w.~-])\/(?:work|home|root|Users)\/[\w.-]+\/[\w.-]+/,
  ]
  const breaks = files.flatMap((file) => {
    const text = textOf(file)
    if (text === undefined) return []
    return forbidden
      .map((pattern) => pattern.exec(text)?.[0])
      .flatMap((found) => (found ? `${file}: ${found}` : []))
  })
  assert.deepEqual(breaks, [])
})
