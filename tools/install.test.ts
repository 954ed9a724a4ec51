import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { installFault } from './install.mjs'

interface Entry {
  version?: string
  integrity?: string
  resolved?: string
  link?: boolean
  optional?: boolean
  dev?: boolean
}

/** A folder whose lockfile wants one set of packages and whose node_modules holds another. */
function folder(
  t: TestContext,
  state: { wanted?: Record<string, Entry>; installed?: Record<string, Entry> | string },
): string {
  const root = mkdtempSync(join(tmpdir(), 'tributary-install-'))
  t.after(() => rmSync(root, { recursive: true }))
  mkdirSync(join(root, 'node_modules'))
  const { wanted, installed } = state
  if (wanted)
    writeFileSync(join(root, 'package-lock.json'), JSON.stringify({ packages: { '': {}, ...wanted } }))
  if (installed === undefined) return root
  const text = typeof installed === 'string' ? installed : JSON.stringify({ packages: installed })
  writeFileSync(join(root, 'node_modules', '.package-lock.json'), text)
  return root
}

const a = { 'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' } }
const everything = { needsDevelopment: true }

test('an install that matches the lockfile has no fault', (t) => {
  assert.equal(installFault(folder(t, { wanted: a, installed: a }), everything), undefined)
})

test('an install that never finished is a fault', (t) => {
  assert.match(installFault(folder(t, { wanted: a }), everything) ?? '', /missing or incomplete/)
  assert.match(
    installFault(folder(t, { wanted: a, installed: '{"pack' }), everything) ?? '',
    /missing or incomplete/,
  )
})

test('a package that is missing, of another version or no longer wanted is a fault that names it', (t) => {
  const b = { 'node_modules/b': { version: '2.0.0' } }
  const other = { 'node_modules/a': { version: '1.0.0', integrity: 'sha512-other' } }
  assert.match(
    installFault(folder(t, { wanted: { ...a, ...b }, installed: a }), everything) ?? '',
    /\/b is not/,
  )
  assert.match(
    installFault(folder(t, { wanted: a, installed: other }), everything) ?? '',
    /\/a is not the version/,
  )
  assert.match(
    installFault(folder(t, { wanted: a, installed: { ...a, ...b } }), everything) ?? '',
    /\/b is no longer/,
  )
})

test('packages for other platforms may be absent, and development tools where none are needed', (t) => {
  const optional = { 'node_modules/o': { version: '1.0.0', optional: true } }
  const dev = { 'node_modules/d': { version: '1.0.0', dev: true } }
  const bench = { bench: {}, 'node_modules/@tributary/bench': { resolved: 'bench', link: true } }
  const root = folder(t, { wanted: { ...a, ...optional, ...dev, ...bench }, installed: a })
  assert.equal(installFault(root, { needsDevelopment: false }), undefined)
  const fault = 'what only demo, tests and benchmarks use is not installed'
  assert.equal(installFault(root, everything), fault)
  const withoutBench = folder(t, { wanted: { ...a, ...bench }, installed: a })
  assert.equal(installFault(withoutBench, everything), fault)
})

test('without a lockfile there is nothing to compare with', (t) => {
  assert.equal(installFault(folder(t, { installed: a }), everything), undefined)
})
