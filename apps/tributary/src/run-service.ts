import { fork } from 'node:child_process'
import { serviceEntry, type ServiceName } from './service-entry.ts'

/**
 * Runs one service under this Node until it ends, and returns its exit code. Its output is ours, and so are the
 * signals that reach us; when we die it stops by itself.
 */
export async function runOneService(name: ServiceName, args: readonly string[]): Promise<number> {
  const child = fork(serviceEntry(name), args, { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  const { promise, resolve } = Promise.withResolvers<number>()
  child.once('error', (error) => {
    process.stderr.write(`tributary ${name}: ${error.message}\n`)
    resolve(1)
  })
  child.once('exit', (code) => resolve(code ?? 1))
  return promise
}
