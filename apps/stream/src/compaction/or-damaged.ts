import { isDamage, SegmentError } from '@tributary/segment'

/** Undefined when what was to be read is damaged. @throws what is no damage, such as a fault of the disk. */
export async function orDamaged<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof SegmentError || isDamage(error)) return undefined
    throw error
  }
}
