/** The commands that the README shows for services that run, as a test can run them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const readme = readFileSync(join(import.meta.dirname, '../../../README.md'), 'utf8')

/** The arguments of each `npm run -s tributary -- …`, without quotes and without what comes after a `#`. */
export function readmeCommands(): string[][] {
  return Array.from(readme.matchAll(/^npm run -s tributary -- ([^#\n]+)/gm), ([, line = '']) =>
    line
      .trim()
      .split(/\s+/)
      .map((word) => word.replaceAll("'", '')),
  )
}

/** The program for a browser that the README shows. Its socket is `socket`. */
export function readmeBrowserProgram(): string {
  const code = /^```js\n(.*?)^```/ms.exec(readme)?.[1]
  if (code === undefined) throw new Error('the README shows no program for a browser')
  return code
}

/** The body of the request for a feed that the README shows. */
export function readmeFeedRequest(viewerDid: string): string {
  const body = /-d '(\{.*\})'/.exec(readme)?.[1]
  if (body === undefined) throw new Error('the README shows no request for a feed')
  return body.replace('did:plc:…', viewerDid)
}
