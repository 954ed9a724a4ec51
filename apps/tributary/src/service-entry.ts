import { fileURLToPath } from 'node:url'

export const serviceNames = ['relay', 'stream', 'index', 'feed'] as const
export type ServiceName = (typeof serviceNames)[number]

/** The program of a service, to be started by Node. */
export function serviceEntry(name: ServiceName): string {
  return fileURLToPath(new URL('./main.ts', import.meta.resolve(`@tributary/${name}`)))
}
