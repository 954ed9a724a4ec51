/** `tributary relay|stream audit`: what operators changed, and how it was before. */
import type { Command } from 'commander'
import { type End, list } from './operator-command.ts'
import type { Json } from './operator-client.ts'

const columns = ['at', 'actor', 'operation', 'subject', 'before', 'after']

/** Adds it to the command of a service. @param end called with the exit code. */
export function addAudit(service: Command, end: End): void {
  const summary = 'list what was changed and by whom, newest first'
  const below = { columns: ['before', 'after'], textOf: changeText }
  list(service, 'audit', summary, 'listAudit', 'audit', columns, end, below)
}

/** The change that an entry of the audit tells of: the fields that differ, or all where only one side is known. */
export function changeText({ before, after }: Json): string {
  const [was, is] = [before, after].map(fieldsOf)
  if (!was)
    return is
      ? Object.entries(is)
          .map(([name, value]) => `${name}: ${wordOf(value)}`)
          .join(', ')
      : ''
  if (!is)
    return Object.entries(was)
      .map(([name, value]) => `${name} was ${wordOf(value)}`)
      .join(', ')
  return [...new Set([...Object.keys(was), ...Object.keys(is)])]
    .map((name) => [name, wordOf(was[name]), wordOf(is[name])] as const)
    .filter(([, one, other]) => one !== other)
    .map(([name, one, other]) => `${name}: ${one} -> ${other}`)
    .join(', ')
}

function fieldsOf(side: unknown): Json | undefined {
  return typeof side === 'object' && side !== null ? (side as Json) : undefined // any object has fields
}

function wordOf(value: unknown): string {
  if (value === undefined || value === null) return 'none'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
