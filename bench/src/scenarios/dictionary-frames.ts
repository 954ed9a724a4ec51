import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { createDictionaryEncoder, eventDictionary } from '@tributary/zstd-dictionary'
import { createDictionaryDecoder } from '@tributary/zstd-dictionary/decoder'
import type { Bench } from '../lib/bench.ts'
import { sampleMessages } from '../lib/dictionary-samples.ts'
import type { Figure } from '../lib/figure.ts'

/** Other messages than the dictionary was trained on. */
const seed = 99
const messageCount = 2000
const rounds = 100
/** The reference takes some ten times as long. */
const referenceRounds = 5
const bytesMax = 1_000_000

/** Messages of the live stream as the stream compresses them and our client reads them, each beside Node's own zstd. */
export async function dictionaryFrames(bench: Bench): Promise<Figure[]> {
  const { bytes: dictionary } = eventDictionary()
  const { encode } = await createDictionaryEncoder(dictionary)
  const { decode } = createDictionaryDecoder(dictionary)
  const messages = Array.from(sampleMessages(messageCount, seed), (text) => Buffer.from(text))
  const frames = messages.map((message) => encode(message))
  bench.say('dictionary-frames: compressing')
  const encoded = perCpuSecond(messages, rounds, encode)
  const before = process.memoryUsage().rss
  const encodedByNode = perCpuSecond(messages, referenceRounds, (message) =>
    zstdCompressSync(message, { dictionary }),
  )
  bench.say('dictionary-frames: reading')
  const decoded = perCpuSecond(frames, rounds, (frame) => decode(frame, bytesMax))
  const decodedByNode = perCpuSecond(frames, referenceRounds, (frame) =>
    zstdDecompressSync(frame, { dictionary }),
  )
  const plainBytes = meanBytes(messages)
  const node = "Node's zstd with the dictionary, this run"
  return [
    {
      name: 'messages compressed with the dictionary',
      value: encoded,
      unit: 'a CPU s',
      better: 'higher',
      references: [{ name: node, value: encodedByNode }],
      note: `${messageCount * rounds} messages; resident memory then ${(before / 1e6).toFixed(0)} MB`,
    },
    {
      name: 'compressed messages read by the client',
      value: decoded,
      unit: 'a CPU s',
      better: 'higher',
      references: [{ name: node, value: decodedByNode }],
    },
    {
      name: 'bytes of a compressed message',
      value: meanBytes(frames),
      unit: 'B',
      better: 'lower',
      references: [
        { name: 'the message as it is', value: plainBytes },
        {
          name: "Node's zstd without a dictionary",
          value: meanBytes(messages.map((message) => zstdCompressSync(message))),
        },
      ],
    },
  ]
}

/** Calls a CPU second, of this process, after a round that is not counted. */
function perCpuSecond<T>(values: readonly T[], count: number, work: (value: T) => unknown): number {
  for (const value of values) work(value)
  const start = process.cpuUsage()
  for (let round = 0; round < count; round++) for (const value of values) work(value)
  const { user, system } = process.cpuUsage(start)
  return (values.length * count) / ((user + system) / 1e6)
}

function meanBytes(values: readonly Uint8Array[]): number {
  return values.reduce((sum, { length }) => sum + length, 0) / values.length
}
