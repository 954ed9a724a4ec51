import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogger } from '@tributary/telemetry'
import { DiskFloor } from './disk-floor.ts'

const mb = 1_000_000

function floorAt(freeMbMin: number): {
  floor: DiskFloor
  told: boolean[]
  look: (freeMb: number) => Promise<void>
} {
  const told: boolean[] = []
  let free: number = Infinity
  const floor = new DiskFloor({
    directory: '/',
    freeMbMin: () => freeMbMin,
    reading: 'sources are',
    onChange: (isBelow) => told.push(isBelow),
    logger: createLogger('relay', { level: 'silent' }),
    freeBytes: async () => {
      if (Number.isNaN(free)) throw new Error('the disk does not answer')
      return free
    },
  })
  const look = async (freeMb: number) => {
    free = freeMb * mb
    await floor.look()
  }
  return { floor, told, look }
}

test('below the floor is told once, and above it only when there is some room to spare', async () => {
  const { floor, told, look } = floorAt(1000)
  for (const freeMb of [1000, 999, 500, 1000, 1063]) await look(freeMb)
  assert.deepEqual(told, [true])
  for (const freeMb of [1064, 1001]) await look(freeMb)
  assert.deepEqual(told, [true, false])
  assert.equal(floor.freeBytes, 1001 * mb)
  floor.close()
})

test('a disk that cannot be asked changes nothing, and a floor of 0 is none', async () => {
  const { floor, told, look } = floorAt(1000)
  await look(10)
  await look(NaN)
  assert.deepEqual([floor.isBelow, floor.freeBytes, told], [true, 10 * mb, [true]])
  floor.close()
  const none = floorAt(0)
  await none.look(0)
  assert.deepEqual([none.floor.isBelow, none.told], [false, []])
  none.floor.close()
})
