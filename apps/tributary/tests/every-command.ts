/** The commands of the program, as Commander knows them. */
import type { Command } from 'commander'

/** All commands below this one, groups of commands too. */
export function everyCommand(program: Command): Command[] {
  return program.commands.flatMap((command) => [command, ...everyCommand(command)])
}

/** As it is typed: `tributary relay hosts list`. */
export function nameOf(command: Command): string {
  return command.parent ? `${nameOf(command.parent)} ${command.name()}` : command.name()
}
