/**
 * Backup of a relay, running or not. The order is what makes the copy fit together: first the state, which trails the
 * log; then the log, which so is never behind the state; then what operators decided, whose sources the log names.
 */
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { backUpLog } from '@tributary/event-log'
import { FileUseError } from '../command-errors.ts'
import { copyDatabase } from './copy-database.ts'

const stateFile = 'state.sqlite'

export interface BackupReport {
  /** The last record of the copied log. */
  lastSeq: number
  databases: string[]
}

/** @throws FileUseError when there is nothing to copy, or the target exists. */
export async function backUpRelay(dataDirectory: string, target: string): Promise<BackupReport> {
  if (!existsSync(join(dataDirectory, 'log')))
    throw new FileUseError(`${dataDirectory} is no data directory of a relay`)
  if (existsSync(target)) throw new FileUseError(`${target} exists already`)
  mkdirSync(target, { recursive: true })
  try {
    return await copyInto(target, dataDirectory)
  } catch (error) {
    // A part of a backup is none, and would be in the way of the next one.
    rmSync(target, { recursive: true, force: true })
    throw error
  }
}

async function copyInto(target: string, dataDirectory: string): Promise<BackupReport> {
  const databases = readdirSync(dataDirectory).filter((name) => name.endsWith('.sqlite'))
  const copy = (name: string): Promise<void> => copyDatabase(join(dataDirectory, name), join(target, name))
  if (databases.includes(stateFile)) await copy(stateFile)
  const { lastSeq } = await backUpLog(join(dataDirectory, 'log'), join(target, 'log'))
  for (const name of databases) if (name !== stateFile) await copy(name)
  // SQLite syncs the files. Their names are durable with their directory.
  await using directory = await open(target, 'r')
  await directory.sync()
  return { lastSeq, databases }
}
