import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WorkPool } from './work-pool.ts'

test('as much is worked on at a time as may be, and all of it is waited for', async () => {
  const pool = new WorkPool<number>(2)
  let [atOnce, most, done] = [0, 0, 0]
  await pool.run(async () => {
    for (let key = 0; key < 7; key++) {
      await pool.start(key, async () => {
        most = Math.max(most, ++atOnce)
        await new Promise(setImmediate)
        atOnce--
        done++
      })
      assert.ok(pool.has(key))
    }
  })
  assert.deepEqual([most, done, pool.size], [2, 7, 0])
})

test('a fault of what is worked on is thrown, also while nothing new begins', async () => {
  const pool = new WorkPool<number>(2)
  const running = pool.run(async () => {
    await pool.start(1, async () => {
      throw new RangeError('planted')
    })
    await new Promise(() => undefined)
  })
  const fault = running.catch((error: unknown) => error)
  assert.ok((await Promise.race([fault, new Promise(setImmediate)])) instanceof RangeError)
})
