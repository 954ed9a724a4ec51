/** The client for browsers and other platforms with web standards. In Node import `@tributary/client/node`. */
export { type BrowserClientOptions, createStreamClient } from './browser.ts'
export * from './entry.ts'
