import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

let collect: (() => void) | undefined

/**
 * What this thread has in use, in bytes, once what nobody needs any more is collected. A buffer that goes with it is freed
 * some time later, and counts in `external` until then. From the first call on the process may run the garbage collector.
 */
export function memoryInUse(): { heapUsed: number; external: number } {
  setFlagsFromString('--expose-gc')
  collect ??= runInNewContext('gc') as () => void // what the flag adds
  collect()
  return process.memoryUsage()
}
