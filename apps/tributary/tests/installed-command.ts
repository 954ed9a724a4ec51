/** What the package of the command brings with it, and whether all of it can be used where it is installed alone. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
/** With all that they need themselves: the command, and two that bring compiled code. */
const packagesMax = 30
const bytesMax = 60_000_000

/** @param modules the `node_modules` that hold nothing but the command and what it needs. */
export async function checkInstalled(modules: string): Promise<void> {
  const { bytes, packages } = await sizeOf(modules)
  assert.ok(bytes < bytesMax, `${bytes} bytes`)
  assert.ok(packages <= packagesMax, `${packages} packages`)
  const command = join(modules, 'tributary')
  const { dependencies } = JSON.parse(await readFile(join(command, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  } // as it was packed
  assert.deepEqual(
    Object.keys(dependencies).filter((name) => name.startsWith('@tributary/')),
    [],
  )

  const bundled = join(command, 'dist/bundled')
  const imports = (await readdir(bundled)).filter((name) => name.endsWith('.js'))
  assert.ok(imports.includes('pg.js'), 'also what only some settings need')
  const importAll = imports.map((name) => `await import('./${name}')`).join('\n')
  await run(process.execPath, ['--input-type=module', '--eval', importAll], { cwd: bundled })
  const compress = `const { createDictionaryEncoder, eventDictionary } = await import('../packages/zstd-dictionary/src/index.js')
    await createDictionaryEncoder(eventDictionary().bytes)`
  await run(process.execPath, ['--input-type=module', '--eval', compress], { cwd: bundled })
  const licences = await readFile(join(bundled, 'LICENSES.txt'), 'utf8')
  assert.match(licences, /^# pg \d+\.\d+\.\d+ \(MIT\)\n\nMIT License\n/m)
}

/** Bytes of all files in a directory, and how many of them are the manifest of a package. */
async function sizeOf(directory: string): Promise<{ bytes: number; packages: number }> {
  const files = await readdir(directory, { recursive: true, withFileTypes: true })
  let bytes = 0
  for (const file of files) if (file.isFile()) bytes += (await stat(join(file.parentPath, file.name))).size
  const isPackage = /(^|\/)node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/
  const packages = files.filter((file) => isPackage.test(join(file.parentPath, file.name))).length
  return { bytes, packages }
}
