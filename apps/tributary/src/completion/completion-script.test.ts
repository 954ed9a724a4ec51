import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { upSettings } from '../up/settings.ts'
import { createProgram } from '../program.ts'
import { commandTree } from './command-tree.ts'
import { completionScript, shells } from './completion-script.ts'

const tree = commandTree(createProgram(), { up: upSettings })

function has(program: string): boolean {
  return spawnSync(program, ['-c', 'exit 0']).status === 0
}

/** What bash offers for the last word. */
function offered(...typed: string[]): string[] {
  const words = typed.map((word) => `'${word}'`).join(' ')
  const script = `${completionScript('bash', tree)}
COMP_WORDS=(${words}); COMP_CWORD=${typed.length - 1}; _tributary; printf '%s\\n' "\${COMPREPLY[@]}"`
  return execFileSync('bash', ['--norc', '-c', script], { encoding: 'utf8' }).split('\n').filter(Boolean)
}

test('bash completes commands, flags and the words that a flag takes', (t) => {
  if (!has('bash')) return t.skip('there is no bash')
  assert.deepEqual(offered('tributary', 'ba'), ['backfill'])
  assert.deepEqual(offered('tributary', 'relay', 'hosts', 're'), ['resume', 'remove', 'restart'])
  assert.deepEqual(offered('tributary', 'tail', '--collections', 'a.b.*', '--cursor-f'), ['--cursor-file'])
  assert.deepEqual(offered('tributary', 'relay', 'hosts', 'list', '--desired', ''), [
    'enabled',
    'paused',
    'banned',
    'removed',
  ])
  assert.deepEqual(offered('tributary', 'backfill', '--output', 'ta'), [], 'files are the shell’s')
  assert.deepEqual(offered('tributary', 'up', '--data-d'), ['--data-directory'])
})

test('a script names every command and every flag of it, and its shell can read it', (t) => {
  for (const shell of shells) {
    const script = completionScript(shell, tree)
    for (const { path, commands, flags } of tree) {
      assert.ok(script.includes(`'${path}'`) || shell === 'fish', path)
      for (const { word } of [...commands, ...flags])
        assert.ok(script.includes(shell === 'fish' ? word.replace(/^--/, '-l ') : word), `${path} ${word}`)
    }
    if (!has(shell)) t.diagnostic(`there is no ${shell}`)
    else {
      const { status, stderr } = spawnSync(shell, ['-n'], { input: script, encoding: 'utf8' })
      assert.deepEqual([status, stderr], [0, ''], shell)
    }
  }
})
