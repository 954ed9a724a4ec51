import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'

/** A server that opens a file for each request. */
const program = `
import { readFile } from 'node:fs/promises'
import { startTestServer } from '${import.meta.resolve('./test-server.ts')}'
const server = await startTestServer((server) =>
  server.route('GET', '/file', async () => ({ bytes: (await readFile(process.execPath)).length > 0 })),
)
console.log(server.port)
`

test('connections leave files to a process that may open few', async (t) => {
  const node = [process.execPath, '--input-type=module-typescript', '-e', program]
  const child = spawn('/bin/sh', ['-c', 'ulimit -n 200 && exec "$@"', 'sh', ...node])
  t.after(() => child.kill('SIGKILL'))
  child.stderr.pipe(process.stderr)
  const port = Number(String((await once(child.stdout, 'data'))[0]))
  const first = connect({ port, host: '127.0.0.1' })
  await once(first, 'connect')
  const sockets: Socket[] = [first]
  for (let n = 0; n < 250; n++) sockets.push(connect({ port, host: '127.0.0.1' }).on('error', () => {}))
  t.after(() => sockets.forEach((socket) => socket.destroy()))
  const last = sockets.at(-1)
  if (last && !last.closed) await once(last, 'close')
  first.write('GET /file HTTP/1.1\r\nHost: x\r\n\r\n')
  assert.match(String((await once(first, 'data'))[0]), /^HTTP\/1\.1 200 /)
})
