/** A thread that holds and verifies whole repositories: a large one takes seconds, which the event loop does not have. */
import { parentPort } from 'node:worker_threads'
import { readRepoCar, type RepoRecord } from '@tributary/repo-verify'
import type { GivenRecords, RepoCheck, RepoReply, RepoRequest } from './repo-thread-messages.ts'

interface HeldRepo {
  /** Pieces of its CAR, or all of it in one. */
  car: ArrayBuffer[]
  /** Once it is verified. */
  wanted: RepoRecord[]
}

/** What one answer gives at most, so that the main thread takes it in within a millisecond or two. */
const givenMax = { records: 500, bytes: 1024 * 1024 }
const repos = new Map<number, HeldRepo>()

parentPort?.on('message', (request: RepoRequest | 'end') => {
  if (request === 'end') return parentPort?.close()
  const { to, id } = request
  if (to === 'forget') {
    for (const piece of repos.get(id)?.car ?? []) free(piece)
    repos.delete(id)
    return
  }
  const repo = repos.get(id) ?? { car: [], wanted: [] }
  repos.set(id, repo)
  if (to === 'add') repo.car.push(request.bytes)
  else if (to === 'verify') send(verify(id, repo, request.check))
  else {
    const given = take(repo.wanted, request.from)
    send({ is: 'given', id, given }, [given.bytes])
  }
})

function verify(id: number, repo: HeldRepo, { did, key, bytesMax, collections }: RepoCheck): RepoReply {
  const car = joined(repo.car)
  // It may be verified once more, against another key.
  repo.car = [car]
  const read = readRepoCar(new Uint8Array(car), { did, key, nowMs: Date.now(), bytesMax })
  if (!read.ok) return { is: 'refused', id, reason: read.reason, detail: read.detail }
  repo.wanted = read.records.filter(({ collection }) => collections.has(collection))
  return { is: 'verified', id, rev: read.rev, data: read.data, records: repo.wanted.length }
}

/** The records from a place on. At least one, if there is one. */
function take(wanted: readonly RepoRecord[], from: number): GivenRecords {
  let to = from
  let length = 0
  for (const { record } of wanted.slice(from, from + givenMax.records)) {
    if (to > from && length + record.length > givenMax.bytes) break
    length += record.length
    to++
  }
  const bytes = new Uint8Array(length)
  let end = 0
  const records = wanted.slice(from, to).map(({ collection, rkey, cid, record }) => {
    bytes.set(record, end)
    end += record.length
    return { collection, rkey, cid, end }
  })
  return { bytes: bytes.buffer, records }
}

function send(reply: RepoReply, transferred: ArrayBuffer[] = []): void {
  parentPort?.postMessage(reply, transferred)
}

/** The pieces as one, which takes their memory: no repository is held twice. */
function joined(pieces: ArrayBuffer[]): ArrayBuffer {
  const [first] = pieces
  if (first && pieces.length === 1) return first
  const whole = new Uint8Array(pieces.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let end = 0
  for (const piece of pieces) {
    whole.set(new Uint8Array(piece), end)
    end += piece.byteLength
    free(piece)
  }
  return whole.buffer
}

/** Gives memory back at once, because garbage collection would let hundreds of megabytes pile up first. */
function free(memory: ArrayBuffer): void {
  memory.transfer(0)
}
