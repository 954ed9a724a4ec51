#!/usr/bin/env node
// The command of the published package, whose sources are compiled: starts it under this Node.
import { fileURLToPath } from 'node:url'
import { launch } from './launch.mjs'

const nodeMajorMin = 24
if (Number(process.versions.node.split('.')[0]) < nodeMajorMin) {
  console.error(`tributary: needs Node ${nodeMajorMin} or later, and this is ${process.version}`)
  process.exit(69)
}
const main = fileURLToPath(new URL('../dist/apps/tributary/src/main.js', import.meta.url))
launch(process.execPath, [main, ...process.argv.slice(2)])
