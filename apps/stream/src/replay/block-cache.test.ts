import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { decodeBlock, encodeBlockBody } from '@tributary/segment'
import { newRow } from '../../tests/rows.ts'
import { BlockCache, BlockRun } from './block-cache.ts'

function blockOf(seq: number): BlockRun {
  const row = { ...newRow({ n: seq }).draft, seq }
  return new BlockRun(decodeBlock(encodeBlockBody([row])), seq, assert.fail)
}

test('however many readers ask, few blocks are loaded at a time, and each once', async () => {
  const cache = new BlockCache(1 << 20)
  let underWay = 0
  let most = 0
  let loads = 0
  const load = async (seq: number): Promise<BlockRun> => {
    loads++
    most = Math.max(most, ++underWay)
    await setImmediate()
    underWay--
    if (seq === 7 && loads <= 50) throw new Error('the disk failed')
    return blockOf(seq)
  }
  const seqs = Array.from({ length: 50 }, (_, i) => i + 1)
  const ask = (): Promise<PromiseSettledResult<BlockRun>[]> =>
    Promise.allSettled([...seqs, ...seqs].map((seq) => cache.get(String(seq), () => load(seq))))
  const first = await ask()
  assert.deepEqual([loads, first.filter(({ status }) => status === 'rejected').length], [50, 2])
  assert.ok(most <= 4, `${most} at a time`)
  const second = await ask()
  assert.deepEqual([loads, second.filter(({ status }) => status === 'rejected').length], [51, 0])
})

test('blocks that were used longest ago go first, and the bound is kept', async () => {
  const size = blockOf(1).bytes
  const cache = new BlockCache(2 * size)
  const loaded: number[] = []
  for (const seq of [1, 2, 1, 3, 1, 2]) {
    await cache.get(String(seq), async () => {
      loaded.push(seq)
      return blockOf(seq)
    })
    assert.ok(cache.bytes <= 2 * size)
  }
  assert.deepEqual(loaded, [1, 2, 3, 2])
})
