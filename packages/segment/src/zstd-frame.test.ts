import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { constants, zstdCompressSync } from 'node:zlib'
import { readVector } from '../tests/vectors.ts'
import { SegmentError } from './errors.ts'
import { nodeDecompress, packFrame, unpackFrameAsync } from './node-zstd.ts'
import { inspectFrame, unpackFrame } from './zstd-frame.ts'

const golden = readVector('segment/golden_block.bin')
const badFrame = { name: 'SegmentError', problem: 'bad-frame' }
const checksum = { [constants.ZSTD_c_checksumFlag]: 1 }

/** A frame with a checksum, no content size and one run-length block. */
function runLengthFrame(runBytes: number, runs: number): Uint8Array {
  const blocks = Array.from({ length: runs }, (_, i) => {
    const header = (runBytes << 3) | (1 << 1) | (i === runs - 1 ? 1 : 0)
    return [header & 0xff, (header >> 8) & 0xff, header >> 16, 0x61]
  })
  return Uint8Array.from([0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, ...blocks.flat(), 0, 0, 0, 0])
}

test('what is packed is unpacked again, in this thread and on the pool', async () => {
  for (const size of [0, 1, 200, 1025, 300_000]) {
    const content = Uint8Array.from({ length: size }, (_, i) => (i * i) >> 3)
    const frame = await packFrame(content)
    assert.deepEqual(unpackFrame(frame, nodeDecompress), content)
    assert.deepEqual(await unpackFrameAsync(frame), content)
  }
})

test('content that makes a frame of any length is one frame', async () => {
  // Node fills buffers of these sizes, the larger when it is not told otherwise. Noise grows by some 14 bytes.
  for (const bufferBytes of [1024, 16 * 1024])
    for (let size = bufferBytes - 40; size < bufferBytes; size++) {
      const content = new Uint8Array(randomBytes(size))
      assert.deepEqual(await unpackFrameAsync(await packFrame(content)), content)
    }
})

test('a flipped bit anywhere in a frame is refused or changes nothing', async () => {
  const content = unpackFrame(golden, nodeDecompress)
  for (let at = 0; at < golden.length; at++) {
    const frame = Uint8Array.from(golden)
    frame[at] = (frame[at] ?? 0) ^ (1 << (at % 8))
    const mayPass = at === 4 || at === 5 // An unused bit, and the size of the window.
    try {
      assert.deepEqual(unpackFrame(frame, nodeDecompress), content)
      assert.ok(mayPass, `byte ${at}`)
    } catch (error) {
      assert.ok(error instanceof SegmentError && error.problem === 'bad-frame', `byte ${at}`)
      await assert.rejects(unpackFrameAsync(frame), badFrame)
    }
  }
})

test('a frame that is cut or followed by anything is refused', () => {
  for (let length = 0; length < golden.length; length++) {
    assert.throws(() => inspectFrame(golden.subarray(0, length)), badFrame, `${length} bytes`)
  }
  assert.throws(() => inspectFrame(Uint8Array.from([...golden, 0])), badFrame)
  assert.throws(() => inspectFrame(Uint8Array.from([...golden, ...golden])), badFrame)
})

test('frames without a content checksum, with a dictionary, or that are skippable are refused', () => {
  assert.throws(() => inspectFrame(zstdCompressSync(Buffer.from('plain'))), badFrame)
  const dictionary = readVector('segment/golden_seal.bin')
  const withRawDictionary = Uint8Array.from(
    zstdCompressSync(Buffer.from('plain'), { params: checksum, dictionary }),
  )
  assert.throws(
    () =>
      unpackFrame(
        Uint8Array.from(withRawDictionary, (byte, i) => (i === 4 ? byte | 1 : byte)),
        nodeDecompress,
      ),
    badFrame,
  )
  assert.throws(() => inspectFrame(Uint8Array.of(0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0)), badFrame)
})

test('a decompressor that does not check the content is checked', () => {
  assert.throws(() => unpackFrame(golden, () => new Uint8Array(285)), badFrame)
  assert.throws(() => unpackFrame(golden, () => new Uint8Array(2 ** 20)), badFrame)
  assert.throws(
    () =>
      unpackFrame(golden, () => {
        throw new TypeError('from a decompressor')
      }),
    badFrame,
  )
})

test('a small frame cannot make the reader allocate more than it is allowed', async () => {
  const bomb = runLengthFrame(128 * 1024, 10_000)
  assert.ok(inspectFrame(bomb).bytesMax <= 2 ** 30)
  assert.equal(inspectFrame(bomb, 1000).bytesMax, 1000)
  let asked = 0
  const decompress = (_: Uint8Array, bytesMax: number): Uint8Array => {
    asked = bytesMax
    return nodeDecompress(bomb, bytesMax)
  }
  assert.throws(() => unpackFrame(bomb, decompress, 1000), badFrame)
  assert.equal(asked, 1000)
  await assert.rejects(unpackFrameAsync(bomb, 1000), badFrame)
  const claimsTooMuch = Uint8Array.from(golden)
  assert.throws(() => inspectFrame(claimsTooMuch, 100), badFrame)
})
