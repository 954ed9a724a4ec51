/** What was wrong with a segment, a block or a row. Also a metric label, so the set stays small and closed. */
export type SegmentProblem =
  | 'bad-name'
  | 'bad-header'
  | 'not-sealed'
  | 'already-sealed'
  | 'bad-checksum'
  | 'bad-block-index'
  | 'bad-filter'
  | 'bad-collection-index'
  | 'bad-frame'
  | 'bad-block'
  | 'bad-row'
  | 'bad-order'
  | 'missing-rows'
  | 'no-such-block'
  | 'no-room'
  | 'closed'
  | 'failed'

/** What systems call a disk, or a share of one, that has no room. */
const fullCodes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT'])

/** Every refusal of this package. Storage errors (no permission, say) are passed on as they are. */
export class SegmentError extends Error {
  override readonly name = 'SegmentError'
  readonly problem: SegmentProblem

  constructor(problem: SegmentProblem, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.problem = problem
  }
}

const damages: readonly SegmentProblem[] = ['bad-header', 'bad-frame', 'bad-block']

/** Whether a read failed because of what the disk holds. Reading it again does not help. */
export function isDamage(error: unknown): error is Error {
  if (error instanceof SegmentError) return damages.includes(error.problem)
  return error instanceof Error && 'code' in error && error.code === 'EIO'
}

/** Whether a write failed because the disk is full. */
export function isFullDisk(error: unknown): boolean {
  return error instanceof Error && 'code' in error && fullCodes.has(error.code)
}

/** The same refusal, naming the file; other errors as they are. */
export function inFile(path: string, error: unknown): unknown {
  if (!(error instanceof SegmentError)) return error
  return new SegmentError(error.problem, `${path}: ${error.message}`, { cause: error })
}
