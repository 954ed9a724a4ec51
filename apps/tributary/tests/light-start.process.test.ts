import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { mainFile } from './run-cli.ts'

/** Prints the address of every module that a process loads, a line each. */
const tellModules = `
  import { registerHooks } from 'node:module'
  import { writeSync } from 'node:fs'
  registerHooks({ load: (url, context, next) => (writeSync(2, url + '\\n'), next(url, context)) })
`

test('a command loads only what it needs, so that it answers at once', async () => {
  const loading = ['--import', `data:text/javascript,${encodeURIComponent(tellModules)}`]
  const { stderr } = await promisify(execFile)(process.execPath, [...loading, mainFile, '--version'])
  const loaded = stderr.split('\n')
  assert.ok(loaded.some((url) => url.endsWith('/apps/tributary/src/program.ts')))
  const heavy = ['client', 'event-log', 'identity', 'index-store', 'repo-verify', 'segment', 'telemetry']
  for (const name of heavy)
    assert.deepEqual(
      loaded.filter((url) => url.includes(`/packages/${name}/`)),
      [],
    )
})
