import type * as testkit from '@tributary/testkit'

/** The real network software. It is a development dependency: installs for production do not have it. */
export type Testkit = typeof testkit

/** Undefined when the development dependencies are not installed. */
export async function loadTestkit(): Promise<Testkit | undefined> {
  try {
    return await import('@tributary/testkit')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND') return undefined
    throw error
  }
}
