import { addProcedure } from '@tributary/operations'
import { XrpcError } from '@tributary/xrpc'
import { BackupRefusedError, type BackupReport, type Backups } from '../archive/backups.ts'
import { operatorPrefix, type OperatorParts } from './operator-parts.ts'

const namePattern = /^[a-z0-9][a-z0-9._-]{0,63}$/

/** Adds the operator's method that makes a copy of the data directory. */
export function addBackupMethod({ server, operations, backups, logger }: OperatorParts): void {
  addProcedure<{ name: string }>(
    server,
    operatorPrefix,
    'backUp',
    async ({ name }, request) =>
      await operations.run(request, async () => {
        if (!namePattern.test(name) || name.endsWith('.tmp')) {
          const message = `${name} is no name for a backup: use lower case letters, digits, points, hyphens and underscores`
          throw new XrpcError(400, 'InvalidRequest', message)
        }
        const report = await made(backups, name, (error) =>
          logger.error({ err: error, name }, 'a backup failed'),
        )
        return () => ({ subject: `backup ${name}`, after: report, output: report })
      }),
  )
}

/** @throws XrpcError 400 `BackupExists`, 409 `BackupRunning`, 500 `BackupFailed`: the archive is as it was. */
async function made(
  backups: Backups,
  name: string,
  onFailed: (error: unknown) => void,
): Promise<BackupReport> {
  try {
    return await backups.make(name)
  } catch (error) {
    if (error instanceof BackupRefusedError)
      throw error.reason === 'exists'
        ? new XrpcError(400, 'BackupExists', `${error.message}: choose another name`)
        : new XrpcError(409, 'BackupRunning', `${error.message}: try again when it is done`)
    onFailed(error)
    const why = error instanceof Error ? error.message : String(error)
    throw new XrpcError(
      500,
      'BackupFailed',
      `nothing of the backup is left, and the archive is as it was: ${why}`,
    )
  }
}
