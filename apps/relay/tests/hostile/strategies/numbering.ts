/** Positions that a host takes back: numbering that begins again, gaps, and cursors that it does not know. */
import { encodeError, encodeEvent } from '@tributary/testkit'
import { pause, repeat, type Strategy } from '../stage.ts'

export const numbering: Readonly<Record<string, Strategy>> = {
  /** Numbering that begins again and again. */
  'numbering-restarts': async (stage) => {
    await repeat(stage, 5, () => {
      const host = stage.random.pick(stage.hosts)
      host.restartNumbering()
      for (const account of [...host.accounts.values()].slice(0, 3))
        account.create('org.impact.collection', { title: 'again' })
      stage.count('restarts')
    })
  },

  /** Huge gaps, numbers that go back, the largest there is. */
  'odd-numbers': async (stage) => {
    await repeat(stage, 50, () => {
      const host = stage.random.pick(stage.hosts)
      const account = stage.random.pick([...host.accounts.values()])
      const seq = stage.random.pick([
        1,
        host.lastSeq,
        host.lastSeq + stage.random.below(1e9),
        Number.MAX_SAFE_INTEGER,
        Number.MAX_SAFE_INTEGER - stage.random.below(1000),
      ])
      const body = { seq, did: account.did, time: new Date().toISOString(), active: true }
      host.connections.at(-1)?.send(encodeEvent('#account', body))
      stage.count('events')
    })
    // What the relay believes to have read is above everything that will come.
    for (const host of stage.hosts) host.restartNumbering()
  },

  /** Errors in place of events: each ends the connection. */
  'error-frames': async (stage) => {
    const names = ['FutureCursor', 'ConsumerTooSlow', 'constructor', '__proto__', '', 'x'.repeat(10_000)]
    await repeat(stage, 10, () => {
      const host = stage.random.pick(stage.hosts)
      host.connections.at(-1)?.send(encodeError(stage.random.pick(names), 'an error'))
      stage.count('errors')
    })
    await pause(stage, 0)
  },
}
