import { StreamError } from './errors.ts'

/**
 * The numbers that were given, else the defaults. A count of zero would wait without an end, and NaN not at all.
 * @throws StreamError `InvalidRequest` for what is below `least`, or no number.
 */
export function numberOptions<K extends string>(
  least: Readonly<Record<K, number>>,
  defaults: Readonly<Record<K, number>>,
  given: { readonly [name in NoInfer<K>]?: number | undefined } = {},
): Record<K, number> {
  const chosen: Record<K, number> = { ...defaults }
  for (const name of Object.keys(least) as K[]) {
    // `as`, because `least` has these keys and no others
    const value = given[name]
    if (value === undefined) continue
    if (typeof value !== 'number' || !(value >= least[name]))
      throw new StreamError(
        'InvalidRequest',
        `${name} must be a number from ${least[name]}: ${String(value)}`,
      )
    chosen[name] = value
  }
  return chosen
}
