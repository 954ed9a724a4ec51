import { spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { childEnvironment } from '@tributary/settings'

export const mainFile: string = fileURLToPath(new URL('../src/main.ts', import.meta.url))

export interface CliResult {
  /** The exit code, or the signal that ended it. */
  code: number | NodeJS.Signals | null
  stdout: string
  stderr: string
}

/** A command that hangs is killed, so that its test sees what it wrote until then. */
const runMsMax = 120_000

/**
 * Runs a command to its end, in `directory`, with nothing of ours in the environment but `env`. With `isRead` false the
 * pipe of its stdout is closed before it writes. With `output` its stdout is this file.
 */
export async function runCli(
  args: readonly string[],
  options: { env?: Record<string, string>; directory?: string; isRead?: boolean; output?: string } = {},
): Promise<CliResult> {
  await using file = options.output === undefined ? undefined : await open(options.output, 'w')
  const child = spawn(process.execPath, [mainFile, ...args], {
    cwd: options.directory ?? process.cwd(),
    env: childEnvironment(options.env ?? {}),
    stdio: ['ignore', file?.fd ?? 'pipe', 'pipe'],
    timeout: runMsMax,
    killSignal: 'SIGKILL',
  })
  const result: CliResult = { code: null, stdout: '', stderr: '' }
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (result.stdout += text))
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (result.stderr += text))
  if (options.isRead === false) child.stdout?.destroy()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  child.once('error', reject)
  child.once('close', (code, signal) => {
    result.code = code ?? signal
    resolve()
  })
  await promise
  return result
}
