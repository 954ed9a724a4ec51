import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

function campaign(...args: string[]): Ended {
  return tool('campaign.ts', ...args)
}

function tool(name: string, ...args: string[]): Ended {
  const file = join(import.meta.dirname, name)
  const { status, stdout, stderr } = spawnSync(process.execPath, [file, ...args], { encoding: 'utf8' })
  return { code: status, stdout, stderr }
}

test('campaigns have help, and a mistyped name or option is told in a sentence', () => {
  const all = campaign('--help')
  assert.deepEqual([all.code, all.stderr], [0, ''])
  assert.match(all.stdout, /npm run campaign -- crash[^]*Campaigns: crash, simulator, simulator-sources/)
  const hostile = campaign('hostile', '--help')
  assert.deepEqual([hostile.code, hostile.stderr], [0, ''])
  assert.match(hostile.stdout, /--strategy pings/)
  const name = campaign('hostle')
  assert.deepEqual([name.code, name.stderr.split('\n').length], [64, 2])
  const option = campaign('oracle', '--nonsense')
  assert.equal(option.code, 64)
  assert.match(option.stderr, /^campaign: Unknown option '--nonsense'[^\n]*\n$/)
})

test('npm run mutants has help, and a mistyped option is told in a sentence', () => {
  const help = tool('mutants.ts', '--help')
  assert.deepEqual([help.code, help.stderr], [0, ''])
  assert.match(help.stdout, /npm run mutants -- --only-simulator/)
  const option = tool('mutants.ts', '--nonsense')
  assert.deepEqual([option.code, option.stdout], [64, ''])
  assert.match(option.stderr, /^mutants: Unknown option '--nonsense'[^\n]*\n$/)
})
