/**
 * Rows are found by indexes, whichever they are. So a statement has one plan, which a session makes once, and no table is
 * read whole, however few rows the server thinks there are: a plan that was made for empty tables stays good.
 */
export const planSettings: readonly string[] = [
  'set local plan_cache_mode = force_generic_plan',
  'set local enable_seqscan = off',
  'set local enable_hashjoin = off',
  'set local enable_mergejoin = off',
  // To compile a statement takes longer than a page, and is done anew each time that it is run.
  'set local jit = off',
]
