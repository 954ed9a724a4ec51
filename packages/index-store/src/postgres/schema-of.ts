/** Where a generation lives in a PostgreSQL database: the first in the schema that connections have anyway. */
export function schemaOf(generation: number): string | undefined {
  return generation === 1 ? undefined : `tributary_index_${generation}`
}

/** The row of the first generation's policies that names the generation that is read. */
export const generationPolicy = 'generation'
/** The row that names the generation which a rebuild is asked to make. */
export const rebuildPolicy = 'rebuild'
