import { SegmentError } from './errors.ts'

const shape = /^seg_([0-9a-z]{10})\.jss$/

/** The file name of a segment: its zero-based index in base 36, so that names sort in creation order. */
export function segmentName(index: number): string {
  const digits = index.toString(36).padStart(10, '0')
  if (!Number.isSafeInteger(index) || index < 0 || digits.length > 10) {
    throw new SegmentError('bad-name', `${index} is not a segment index`)
  }
  return `seg_${digits}.jss`
}

/** The index in a segment's file name; undefined for every other name (upper case, other lengths, other endings). */
export function parseSegmentName(name: string): number | undefined {
  const digits = shape.exec(name)?.[1]
  return digits === undefined ? undefined : Number.parseInt(digits, 36)
}
