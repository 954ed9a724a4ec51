/**
 * Verification on threads: events go in one by one, cross to the threads in batches, and their verdicts come out in the
 * order of each account. What is kept of a good event, and how it is verified, is its program's: see `VerifyWork`.
 */
export { endThread } from './end-thread.ts'
export { serveVerification } from './serve-verification.ts'
export { orDefect, type Verdict } from './verdict.ts'
export type { VerifyWork } from './verify-messages.ts'
export { VerifyPool, type Verification } from './verify-pool.ts'
