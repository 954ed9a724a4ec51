import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from 'commander'
import { createProgram } from './program.ts'

/** Every command below one, with the words that name it. */
function* below(command: Command, words: string[] = []): Generator<{ path: string; command: Command }> {
  for (const each of command.commands) {
    const path = [...words, each.name()]
    yield { path: path.join(' '), command: each }
    yield* below(each, path)
  }
}

/** Services and `up` print the help of their settings by themselves. */
const withSettings = new Set(['up', 'demo', 'relay', 'stream', 'index', 'feed', 'help'])

test('every command says what it does, and what each of its options does', () => {
  const all = [...below(createProgram())]
  const relay = all
    .filter(({ path }) => path.startsWith('relay '))
    .map(({ path }) => path.slice('relay '.length))
  for (const name of [
    'log inspect',
    'log verify',
    'log repair',
    'backup',
    'hosts list',
    'hosts skip',
    'state',
  ])
    assert.ok(relay.includes(name), `relay ${name}`)
  assert.ok(all.length > 50, `${all.length} commands`)
  for (const { path, command } of all) {
    if (withSettings.has(path)) assert.ok(command.summary(), path)
    else {
      const help = command.helpInformation()
      assert.match(help, new RegExp(`^Usage: tributary ${path}`), path)
      assert.ok(command.description().endsWith('.'), `${path}: ${command.description()}`)
      assert.match(help, /-h, --help/, path)
    }
    for (const { flags, description } of command.options) assert.ok(description, `${path} ${flags}`)
  }
})

test('every command that tells something tells it as JSON too, and takes a key from a file where it takes one', () => {
  // They print a script, a schema, or answers of a person.
  const others = new Set(['completion', 'schema', 'init'])
  for (const { path, command } of below(createProgram())) {
    if (command.commands.length > 0 || withSettings.has(path) || others.has(path)) continue
    const flags = command.options.map(({ long }) => long)
    assert.ok(flags.includes('--json'), path)
    assert.ok(!flags.includes('--api-key') || flags.includes('--api-key-file'), path)
  }
})

test('what stands below the options of a command fits a narrow terminal too, but for lines to be typed', () => {
  for (const { path, command } of below(createProgram())) {
    let help = ''
    command
      .configureOutput({ getOutHelpWidth: () => 80, writeOut: (text) => void (help += text) })
      .outputHelp()
    const lines = help.split('\n').filter((line) => line.trim().includes(' '))
    const tooLong = lines.filter((line) => line.length > 80 && !line.startsWith('  tributary '))
    assert.deepEqual(tooLong, [], path)
  }
})
