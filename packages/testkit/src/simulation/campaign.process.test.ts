import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { pathToFileURL } from 'node:url'

/** Runs the command of a simulator whose runs do what `play` says, in one process unless the arguments say more. */
function campaign(t: TestContext, play: string, ...args: string[]): { code: number | null; lines: string[] } {
  const directory = mkdtempSync(join(tmpdir(), 'campaign-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'simulator.mjs')
  const { href } = pathToFileURL(join(import.meta.dirname, 'campaign.ts'))
  writeFileSync(
    file,
    `import { runCampaign } from '${href}'
    const scriptOf = (seed) => ({ seed, steps: ['join', 'write', 'seal', 'leave', 'write'] })
    const play = async ({ seed, steps }) => { ${play} }
    await runCampaign({ file: import.meta.filename, scriptOf, play })`,
  )
  const { status, stdout } = spawnSync(process.execPath, [file, ...args], { encoding: 'utf8' })
  return { code: status, lines: stdout.trim().split('\n') }
}

const breaks = `const isBroken = seed % 10 === 7 && steps.includes('write') && steps.includes('seal')
  return { broken: isBroken ? ['row 5 is gone'] : [], trace: steps.map((step) => 'did ' + step) }`

test('a seed that breaks a promise is told with the shortest script, which can be played again', (t) => {
  const found = campaign(t, breaks, '--seed', '1', '--seeds', '16')
  assert.equal(found.code, 1)
  assert.deepEqual(found.lines.slice(0, -1), [
    'simulator: seed 7 breaks a promise. The shortest script found:',
    '{"seed":7}',
    '"write"',
    '"seal"',
    'simulator: the end of what happened:',
    'did write',
    'did seal',
    'simulator: row 5 is gone',
  ])
  assert.match(
    found.lines.at(-1) ?? '',
    /^simulator: 16 seeds from 1 on, .* s, \d+ ms .*: promises broke at 1$/,
  )
  const directory = mkdtempSync(join(tmpdir(), 'campaign-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const script = join(directory, 'script.jsonl')
  writeFileSync(script, found.lines.slice(1, 4).join('\n'))
  const again = campaign(t, breaks, '--script', script)
  assert.equal(again.code, 1)
  assert.deepEqual(again.lines, found.lines.slice(0, -1))
})

test('as many seeds are played as were asked for, or as there is time for', (t) => {
  const some = campaign(t, breaks, '--seed', '100', '--seeds', '7')
  assert.deepEqual([some.code, some.lines.length], [0, 1])
  assert.match(some.lines[0] ?? '', /^simulator: 7 seeds from 100 on, .*: no promise broke$/)
  const none = campaign(t, breaks, '--seconds', '0')
  assert.equal(none.code, 0)
  assert.match(none.lines[0] ?? '', /^simulator: 0 seeds from \d+ on, .*: no promise broke$/)
})

test('a seed whose run waits for what never comes is told', (t) => {
  const found = campaign(
    t,
    'if (seed === 3) await new Promise(() => {}); return { broken: [], trace: [] }',
    '--seed',
    '1',
    '--seeds',
    '8',
  )
  assert.equal(found.code, 1)
  assert.equal(found.lines[0], 'simulator: seed 3 waits for what never comes')
})
