import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

export const serviceNames = ['relay', 'stream', 'index', 'feed'] as const
export type ServiceName = (typeof serviceNames)[number]

/** The program of a service, to be started by Node. */
export function serviceEntry(name: ServiceName): string {
  // The apps lie beside each other, as TypeScript here and as JavaScript in the package.
  const extension = extname(fileURLToPath(import.meta.url))
  return fileURLToPath(new URL(`../../${name}/src/main${extension}`, import.meta.url))
}
