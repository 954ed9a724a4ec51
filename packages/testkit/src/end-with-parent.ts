/**
 * Preloaded into every child process of the testkit: the last resort against a child that does not
 * end by itself when its parent is gone, however the parent ended. It looks at the parent's id
 * because listening on the channel would keep a child alive that is otherwise done.
 */
const checkMs = 5000
const parent = process.ppid

setInterval(() => {
  if (process.ppid !== parent) process.exit(1)
}, checkMs).unref()
