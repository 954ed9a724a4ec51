// Starts a program of ours under a Node, with the memory settings that our programs are made for. What must hold:
// - the program's exit code, or the signal that ended it, becomes ours;
// - one Ctrl-C is one SIGINT for the program, although the terminal and npm both send one to us. For that the program
//   gets a process group of its own, and we pass signals on;
// - nothing stays behind: when the program ends its group is ended, and when we or our parent die the program ends
//   (end-with-parent.mjs), however we died.
import { spawn } from 'node:child_process'

/** Megabytes of old objects below which a program does not look which of them are garbage; see `economy`. */
const heapFloor = '--initial-old-space-size=48'
/** The same signal again within this time is one Ctrl-C that reached us on two ways. */
const sameSignalMs = 300
/** How often to look whether our parent still lives. */
const parentCheckMs = 500
/** How long a program may take to end after it was asked to. */
const endGraceMs = 30_000

/**
 * Variables that make our programs, and whatever they start, lighter. What is set already stays as it is.
 * - Compiled code is kept in `compileCache`, so that the TypeScript compiler stays out of memory from the second start on.
 * - Young objects get at most 8 MB twice a thread, less than Node would take; no time was measured to be lost by it.
 * - Programs may run the garbage collector: services do once, after their start, which leaves tens of megabytes behind.
 *   Later it leaves old objects alone until there are 48 MB of them and of the buffers that they hold (`heapFloor`; no
 *   variable can say that). With 32 MB a relay under full load takes 10 % more processor time, because most of what is
 *   old there is buffers; with 64 MB it takes 25 MB more memory.
 * - One thread helps to collect garbage and to compile instead of four: 5 % less processor time under full load.
 * - Threads share two arenas of the C library instead of having their own, which each keep what they freed. Large
 *   buffers, which live longer than what is around them, do not tear holes into them: 30 MB after a full load, and 50 MB
 *   after a flood with those of 64 kB that sockets are read into, for 40 µs each.
 *
 * @param {string | undefined} compileCache
 */
function economy(compileCache) {
  return {
    ...(compileCache !== undefined && { NODE_COMPILE_CACHE: compileCache }),
    NODE_OPTIONS: '--max-semi-space-size=8 --v8-pool-size=1 --expose-gc',
    MALLOC_ARENA_MAX: '2',
    MALLOC_MMAP_THRESHOLD_: '65536',
  }
}

/**
 * Runs a program to its end, which ends this process too.
 *
 * @param {string} node
 * @param {string[]} program the entry file and its arguments
 * @param {string} [compileCache] a directory for compiled code
 */
export function launch(node, program, compileCache) {
  const hasGroups = process.platform !== 'win32'
  const endWithParent = new URL('end-with-parent.mjs', import.meta.url).href
  const child = spawn(node, [heapFloor, '--import', endWithParent, ...program], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    detached: hasGroups,
    env: { ...economy(compileCache), ...process.env },
  })
  const pid = child.pid
  child.once('error', (error) => {
    console.error(`tributary: cannot start ${node}: ${error.message}`)
    process.exit(70)
  })
  if (pid === undefined) return

  /** @type {Map<NodeJS.Signals, number>} */
  const passedAt = new Map()
  /** @param {NodeJS.Signals} signal */
  const pass = (signal) => {
    const now = performance.now()
    if (now - (passedAt.get(signal) ?? -Infinity) < sameSignalMs) return
    passedAt.set(signal, now)
    child.kill(signal)
    setTimeout(endGroup, endGraceMs).unref()
  }
  const endGroup = () => {
    try {
      process.kill(hasGroups ? -pid : pid, 'SIGKILL')
    } catch {
      // No such process: everything the program started has ended already.
    }
  }
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.on(signal, pass)
  // The program is in another group, so a change of the terminal's size is passed on too.
  if (hasGroups) process.on('SIGWINCH', (signal) => child.kill(signal))
  const parent = process.ppid
  const parentCheck = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(parentCheck)
    pass('SIGTERM')
  }, parentCheckMs)

  child.once('exit', (code, signal) => {
    clearInterval(parentCheck)
    if (hasGroups) endGroup()
    if (signal === null) process.exit(code ?? 1)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}
