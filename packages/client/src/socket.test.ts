import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStandardSocket, type SocketEnd } from './socket.ts'

/** A socket of the platform that does what a test says. */
class StandIn extends EventTarget {
  static last: StandIn | undefined
  constructor() {
    super()
    StandIn.last = this
  }
}

test('a socket that fails ends once, also where the platform tells no end', (t) => {
  t.mock.property(globalThis, 'WebSocket', StandIn as unknown as typeof WebSocket) // it is used for no more
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const ends: SocketEnd[] = []
  const unused = (): void => undefined
  const open = (): unknown =>
    openStandardSocket('ws://127.0.0.1', undefined, {
      opened: unused,
      message: unused,
      alive: unused,
      closed: (socketEnd) => ends.push(socketEnd),
    })
  open()
  StandIn.last?.dispatchEvent(new Event('error'))
  t.mock.timers.tick(1000)
  assert.deepEqual(ends.splice(0), [{ code: 1006, reason: '' }])

  open()
  StandIn.last?.dispatchEvent(new Event('error'))
  StandIn.last?.dispatchEvent(Object.assign(new Event('close'), { code: 1002, reason: 'a bad frame' }))
  t.mock.timers.tick(1000)
  assert.deepEqual(ends, [{ code: 1002, reason: 'a bad frame' }])
})
