import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SegmentDirectory, type SealedSegment } from '@tributary/segment/node'
import { newRow } from '../../tests/rows.ts'
import { AccountBlocks } from './account-blocks.ts'

const unpaced = async (): Promise<void> => undefined

/** A sealed segment with a block for each list of accounts. */
async function sealed(
  blocks: readonly (readonly string[])[],
): Promise<AsyncDisposable & { segment: SealedSegment }> {
  const parts = new AsyncDisposableStack()
  const directory = parts.use(await mkdtempDisposable(join(tmpdir(), 'account-blocks-')))
  const segments = parts.use(await SegmentDirectory.open({ directory: directory.path, now: () => 0 }))
  let seq = 0
  for (const dids of blocks) {
    await segments.append(dids.map((did) => ({ ...newRow({ n: ++seq, did }).draft, seq })))
  }
  const segment = (await segments.rotate()) ?? assert.fail('there was nothing to seal')
  return { segment, [Symbol.asyncDispose]: () => parts.disposeAsync() }
}

test('blocks that may hold rows of one of the accounts are told', async () => {
  await using made = await sealed([['did:plc:a', 'did:plc:b'], ['did:plc:c'], ['did:plc:b']])
  const { segment } = made
  const askedFor = async (dids: readonly string[]): Promise<boolean[]> => {
    const accounts = await AccountBlocks.of(dids, unpaced)
    const told: boolean[] = []
    for (const i of segment.blocks.keys()) told.push(await accounts.mayBeIn(segment, i))
    return told
  }
  assert.deepEqual(await askedFor(['did:plc:b']), [true, false, true])
  assert.deepEqual(await askedFor(['did:plc:c', 'did:plc:elsewhere']), [false, true, false])
  assert.deepEqual(await askedFor(['did:plc:elsewhere']), [false, false, false])
})

test('many accounts are looked for in turns', async () => {
  await using made = await sealed([['did:plc:a']])
  const { segment } = made
  const accounts = await AccountBlocks.of(
    Array.from({ length: 30_000 }, (_, i) => `did:plc:${i}`),
    unpaced,
  )
  // Filters are in memory from here on, so that reading them gives no turn.
  await segment.readDidFilter()
  let turns = 0
  const count = (): void => {
    turns++
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  await accounts.mayBeIn(segment, 0)
  clearImmediate(counting)
  assert.ok(turns >= 5, `${turns} turns`)
})
