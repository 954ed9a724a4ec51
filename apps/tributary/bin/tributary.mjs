#!/usr/bin/env node
// The command, in plain JavaScript for whatever Node the system has: starts src/main.ts under the Node that the
// install brings in.
process.argv.splice(2, 0, 'apps/tributary/src/main.ts')
await import('../../../tools/run.mjs')
