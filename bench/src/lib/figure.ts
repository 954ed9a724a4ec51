/** A measured value and what it is held against. */
export interface Figure {
  /** What was measured, without the unit. */
  name: string
  value: number
  unit: string
  better: 'higher' | 'lower'
  references: readonly Reference[]
  /** What a reader has to know to judge the value. */
  note?: string
}

/** The same measure of something else, in the same unit. */
export interface Reference {
  name: string
  /** One value, or the range that was seen. */
  value: number | readonly [low: number, high: number]
}

/**
 * How many times better than a reference a figure is: above 1 ours is better, whatever the direction. Of a range the
 * end counts that is better for the reference. NaN when one of the values cannot be compared, such as a zero.
 */
export function ratio({ value, better }: Pick<Figure, 'value' | 'better'>, reference: Reference): number {
  const ends = typeof reference.value === 'number' ? [reference.value] : reference.value
  const theirs = better === 'higher' ? Math.max(...ends) : Math.min(...ends)
  const times = better === 'higher' ? value / theirs : theirs / value
  return Number.isFinite(times) && times > 0 ? times : NaN
}

/**
 * CPU seconds per million deliveries: the CPU of a run with readers, less that of the same ingest without one.
 * Both runs must have taken in the same number of events. Noise can make it negative; it is not hidden.
 */
export function fanoutCpu(run: { cpuSeconds: number; deliveries: number }, idleCpuSeconds: number): number {
  return ((run.cpuSeconds - idleCpuSeconds) * 1e6) / run.deliveries
}
