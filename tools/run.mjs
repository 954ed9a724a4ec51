// Runs a TypeScript program of this repository: node tools/run.mjs <entry.ts> [arguments]
//
// Plain JavaScript that the system's Node 20 can run. It installs what is missing or out of date, and then starts
// the program under the Node that the install brought in (launch.mjs).
import { dirname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findNode, install, installFault, nodeMajorMin } from './install.mjs'
import { launch } from './launch.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
main(process.argv.slice(2))

/** @param {string[]} argv */
function main([entry, ...args]) {
  if (entry === undefined) fail('usage: node tools/run.mjs <entry.ts> [arguments]', 64)
  const file = resolve(root, entry)
  // The demo makes a network out of what tests use.
  const needsDevelopment = /^(tools|bench)\b/.test(relative(root, file)) || args[0] === 'demo'
  const fault = installFault(root, { needsDevelopment })
  if (fault !== undefined) {
    console.error(`tributary: ${fault}; running npm ci --ignore-scripts`)
    const code = install(root, { needsDevelopment })
    if (code !== 0) fail(`npm ci failed with exit code ${code}`, code)
  }
  const node = findNode(root)
  if (node === undefined) {
    const platform = `${process.platform}-${process.arch}`
    fail(
      `no Node ${nodeMajorMin} for ${platform} among the packages; install Node ${nodeMajorMin} or later`,
      69,
    )
  }
  launch(node, [file, ...args], resolve(root, 'node_modules', '.cache', 'compile'))
}

/**
 * @param {string} message
 * @param {number} code
 * @returns {never}
 */
function fail(message, code) {
  console.error(`tributary: ${message}`)
  process.exit(code)
}
