/** Acts that broke a promise once. Every campaign plays them first, for a few seconds each. */
export const failedOnce: readonly { names: readonly string[]; seed: number }[] = [
  // Forged commits, and a relay and a stream that ended at every start.
  { names: ['forge-commit', 'forge-account', 'odd-fields'], seed: 7 },
]
