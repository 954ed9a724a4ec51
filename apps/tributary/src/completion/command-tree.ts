/** What can be typed after each command: other commands, and flags. */
import { type Setting, type SettingsSpec } from '@tributary/settings'
import type { Command, Option } from 'commander'

interface Word {
  word: string
  summary: string
}

export interface Flag extends Word {
  /** What comes after it: nothing, a file, one of some words, or something else. */
  value: 'none' | 'file' | 'other' | readonly string[]
}

export interface CommandNode {
  /** As it is typed: `tributary relay hosts`. */
  path: string
  commands: readonly Word[]
  flags: readonly Flag[]
}

const helpFlag: Flag = { word: '--help', summary: 'display help for command', value: 'none' }

/** Every command, the whole program first. @param settings of the commands whose flags are settings, by name. */
export function commandTree(
  program: Command,
  settings: Readonly<Record<string, SettingsSpec>>,
): CommandNode[] {
  const nodesOf = (command: Command, path: string): CommandNode[] => {
    const spec = command.parent === program ? settings[command.name()] : undefined
    const commands = command.commands.map((each) => ({ word: each.name(), summary: each.summary() }))
    const flags = [...(spec ? settingFlags(spec) : []), ...command.options.flatMap(flagOf), helpFlag]
    const below = command.commands.flatMap((each) => nodesOf(each, `${path} ${each.name()}`))
    return [{ path, commands, flags }, ...below]
  }
  return nodesOf(program, program.name())
}

function flagOf({ long, description, flags, required, optional, argChoices }: Option): Flag[] {
  if (!long) return []
  const kind = /<(file|path)>/.test(flags) ? 'file' : 'other'
  const value = required || optional ? (argChoices ?? kind) : 'none'
  return [{ word: long, summary: description, value }]
}

function settingFlags({ fields }: SettingsSpec): Flag[] {
  const flags = Object.entries<Setting<unknown>>(fields).map(([name, { doc, form, isFlag }]): Flag => {
    const choices = form.startsWith('one of ') ? form.slice('one of '.length).split(', ') : undefined
    const isFile = form === 'a path' || form.startsWith('the path of')
    const value = isFlag ? 'none' : (choices ?? (isFile ? 'file' : 'other'))
    return {
      word: `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
      summary: doc,
      value,
    }
  })
  return [...flags, { word: '--settings', summary: 'A settings file.', value: 'file' }]
}
