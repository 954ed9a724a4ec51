import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { eventually, freePort } from '@tributary/testkit'
import { childEnvironment } from '@tributary/settings'
import { mainFile, runCli } from './run-cli.ts'

/** A folder for temporary files, so that what is left behind is seen. */
function temporaryFolder() {
  const path = mkdtempSync(join(tmpdir(), 'tributary-demo-test-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

test('the demo finds everything where it should be, and leaves nothing behind', async () => {
  using folder = temporaryFolder()
  const { code, stdout, stderr } = await runCli(['demo', '--once'], { env: { TMPDIR: folder.path } })
  assert.equal(code, 0, `${stdout}\n${stderr}`)
  assert.match(stdout, /everything arrived as the PDSs hold it/)
  assert.doesNotMatch(stdout, /WRONG/)
  assert.deepEqual(readdirSync(folder.path), [])
})

/** `tributary` with its arguments, and what it says. */
function startTributary(args: readonly string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [mainFile, ...args], {
    env: childEnvironment(env),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  return {
    /** All that it said, as soon as it has said `last`. */
    says: async (last: RegExp) => {
      await eventually(
        () => last.test(text),
        () => text,
      )
      return text
    },
    /** One Ctrl-C ends it, and it says that all is well. */
    stop: async () => {
      child.kill('SIGINT')
      assert.deepEqual(await exited, [0, null])
    },
    /** Nobody reads its output any more, which ends it as cleanly. */
    leave: async () => {
      child.stdout.destroy()
      assert.deepEqual(await exited, [0, null])
    },
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  }
}

/** Runs the two lines that the demo shows for writing a record. */
async function writeByHand(text: string): Promise<{ uri: string }> {
  const [, lines = ''] = /(^ {2}jwt=.*\n.*$)/m.exec(text) ?? []
  const { stdout } = await promisify(execFile)('sh', ['-c', lines])
  return JSON.parse(stdout) as { uri: string } // what createRecord answers
}

const viewerOf = (text: string): string => /\(?viewer.*?(did:plc:\w+)/.exec(text)?.[1] ?? ''

/** Resolves when the viewer's feed has a record. */
async function inFeed(feedUrl: string, viewerDid: string, { uri }: { uri: string }): Promise<void> {
  const params = { $type: 'org.impact.feed.defs#impactFeedParams', viewerDid }
  const seen: string[] = []
  const isIn = async (): Promise<boolean> => {
    const answer = await fetch(`${feedUrl}/xrpc/org.impact.feed.getFeedSkeleton`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ feedId: 'org.impact.feed.defs#impactFeed', params }),
    })
    seen.splice(0, 1, await answer.text())
    return seen[0]?.includes(uri) ?? false
  }
  await eventually(isIn, () => seen[0])
}

test('the running demo tells how to write and to operate, and ends all that it started when nobody reads it any more', async () => {
  using folder = temporaryFolder()
  using demo = startTributary(['demo'], { TMPDIR: folder.path })
  const text = await demo.says(/Ctrl-C ends everything/)
  const feedUrl = /^feed +(\S+)/m.exec(text)?.[1] ?? ''
  assert.equal((await fetch(`${feedUrl}/ready`)).status, 200)
  await inFeed(feedUrl, viewerOf(text), await writeByHand(text))
  const [, command = ''] = /npm run -s tributary -- (relay hosts list .*)/.exec(text) ?? []
  assert.equal((await runCli(command.split(' '))).code, 0)
  // Each counts in its own unit.
  await demo.says(
    /PDSs \d+ writes {2}relay \d+ writes .* stream \d+ rows .* index \d+ rows \(\d+ rows, [\d.]+ s\)/,
  )
  await demo.leave()
  for (const [, url] of text.matchAll(/(http:\/\/[^\s/]+)/g)) await assert.rejects(fetch(url ?? ''))
  assert.deepEqual(readdirSync(folder.path), [])
})

test('the demo makes a network alone, on which services run as it says, and one Ctrl-C ends it', async () => {
  using folder = temporaryFolder()
  using network = startTributary(['demo', '--network-only'], { TMPDIR: folder.path })
  const text = await network.says(/Ctrl-C ends the network/)
  const [, shown = ''] = /npm start -- (.*)/.exec(text) ?? []
  const data = join(folder.path, 'services')
  const flags = shown.replace('$(mktemp -d)', data).split(' ')
  const feedPort = await freePort()
  for (const name of ['relay', 'stream', 'index']) flags.push(`--${name}-port=${await freePort()}`)
  using services = startTributary(['up', ...flags, `--feed-port=${feedPort}`], {})
  await services.says(/^sources +localhost:\d+, localhost:\d+, localhost:\d+$/m)
  await inFeed(`http://127.0.0.1:${feedPort}`, viewerOf(text), await writeByHand(text))
  await services.stop()
  await network.stop()
  assert.deepEqual(readdirSync(folder.path), ['services'])
})

test('the demo checks services, or leaves them out', async () => {
  const { code, stderr } = await runCli(['demo', '--once', '--network-only'])
  assert.deepEqual([code, stderr.split('\n').length], [78, 2])
})
