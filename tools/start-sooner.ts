/**
 * Hundreds of programs start in a run of the tests. `launch.mjs` lets programs run the garbage collector, which costs each a
 * fifth of its start: V8 then refuses the compiled code that Node carries for its own modules, and every service collects
 * garbage several times when it has started. That pays for what runs long, and tests end soon.
 */

/** Takes that permission from what is started with this environment. */
export function startSooner(env: NodeJS.ProcessEnv): void {
  const options = env['NODE_OPTIONS']?.split(' ').filter((option) => option !== '--expose-gc')
  if (options !== undefined) env['NODE_OPTIONS'] = options.join(' ')
}
