import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { SafeFetchOptions, SafeHead } from '@tributary/identity'
import { systemClock } from '@tributary/lanes'
import { HostAwayError, HostRequests, readRetryAfter } from './host-requests.ts'

test('Retry-After is read as seconds or a date, is bounded, and is left out when it is neither', () => {
  const nowMs = Date.parse('2026-01-01T00:00:00Z')
  const read = (header?: string): number | undefined => readRetryAfter(header, nowMs)
  assert.deepEqual(
    [
      read('7'),
      read(' 0 '),
      read('999999'),
      read('Thu, 01 Jan 2026 00:01:00 GMT'),
      read('Wed, 31 Dec 2025 00:00:00 GMT'),
    ],
    [7000, 1000, 3_600_000, 60_000, 1000],
  )
  assert.deepEqual([read(), read('soon'), read('-5x')], [undefined, undefined, undefined])
})

test('a host whose answers are useless is left alone for a second for each megabyte of them, and no other is', async () => {
  const requests = new HostRequests({
    paceOf: () => 10,
    allowedPrivateHosts: [],
    signal: new AbortController().signal,
  })
  requests.noteUseless('https://a.test', 64_000_000)
  requests.noteUseless('https://a.test', 1000)
  const quietMs = requests.quietMs('https://a.test')
  assert.ok(quietMs > 60_000 && quietMs <= 64_000, `${quietMs}`)
  await assert.rejects(
    requests.ask('https://a.test', 'listRepos', { bytesMax: 1, timeoutMs: 1 }),
    (error) => error instanceof HostAwayError && (error.retryAfterMs ?? 0) > 60_000,
  )
  assert.equal(requests.quietMs('https://b.test'), 0)
})

test('a host that asks to be left alone is not asked by anybody until then', async () => {
  let requests = 0
  const server = createServer((_, response) => {
    requests++
    response.writeHead(429, { 'retry-after': '30' }).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // it listens on TCP
  const host = `127.0.0.1:${port}`
  const signal = new AbortController().signal
  const hosts = new HostRequests({ paceOf: () => 10, allowedPrivateHosts: [host], signal })
  for (let n = 0; n < 2; n++)
    await assert.rejects(
      hosts.ask(`http://${host}`, 'listRepos', { bytesMax: 1000, timeoutMs: 5000 }),
      (error) => error instanceof HostAwayError && (error.retryAfterMs ?? 0) > 20_000,
    )
  server.close()
  assert.equal(requests, 1)
})

test('an answer that comes slower than it must is given up after ten seconds, and others are waited for', async () => {
  let seconds = 0
  let othersWait = true
  const clock = {
    ...systemClock,
    after: (ms: number, call: () => void) => {
      seconds += ms / 1000
      return systemClock.after(1, call)
    },
  }
  const ask = async (bytesASecond: number): Promise<number> => {
    const fetch = async (
      _: string,
      { signal }: SafeFetchOptions,
      take: (piece: Buffer, head: SafeHead) => unknown,
    ): Promise<SafeHead> => {
      const head = { status: 200, headers: {} }
      const endMs = performance.now() + 5000
      for (let taken = 0; taken < 30 && performance.now() < endMs;) {
        await nextTurn()
        signal?.throwIfAborted()
        for (; taken < seconds; taken++) take(Buffer.alloc(bytesASecond), head)
      }
      return head
    }
    seconds = 0
    const { signal } = new AbortController()
    const requests = new HostRequests({ paceOf: () => 10, allowedPrivateHosts: [], signal, clock, fetch })
    const isNeeded = (): boolean => othersWait
    const hurry = { isNeeded, secondsMax: 25, bytesPerSecondMin: 1000 }
    const bounds = { bytesMax: 1_000_000, timeoutMs: 60_000, hurry }
    return (await requests.ask('https://a.test', 'getRepo', bounds)).body.length
  }
  for (const bytesASecond of [0, 990]) {
    await assert.rejects(
      ask(bytesASecond),
      (error) => error instanceof HostAwayError && /1000 bytes a second/.test(error.message),
    )
    assert.equal(seconds, 10)
  }
  await assert.rejects(ask(1100), /not come in 25 s/)
  assert.equal(seconds, 26)
  othersWait = false
  assert.equal(await ask(1), 30)
})

test('a clock that is set back leaves no host alone for longer than a host may ask for', () => {
  let nowMs = Date.UTC(2026, 0, 2)
  const requests = new HostRequests({
    paceOf: () => 10,
    allowedPrivateHosts: [],
    signal: new AbortController().signal,
    clock: { ...systemClock, nowMs: () => nowMs },
  })
  requests.noteUseless('https://a.test', 64_000_000)
  assert.equal(requests.quietMs('https://a.test'), 64_000)
  nowMs -= 86_400_000
  assert.equal(requests.quietMs('https://a.test'), 0)
})
