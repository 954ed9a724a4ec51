/** A thread that verifies whole repositories: a large one takes seconds, which the event loop does not have. */
import { parentPort } from 'node:worker_threads'
import { readRepoCar } from '@tributary/repo-verify'
import type { RepoReply, RepoRequest } from './repo-thread-messages.ts'

parentPort?.on('message', ({ id, car, did, key, bytesMax, collections }: RepoRequest) => {
  const bytes = new Uint8Array(car)
  const repo = readRepoCar(bytes, { did, key, nowMs: Date.now(), bytesMax })
  const reply: RepoReply = repo.ok
    ? {
        id,
        ok: true,
        rev: repo.rev,
        data: repo.data,
        car,
        records: repo.records
          .filter(({ collection }) => collections.has(collection))
          .map(({ collection, rkey, cid, record }) => ({
            collection,
            rkey,
            cid,
            start: record.byteOffset,
            length: record.length,
          })),
      }
    : { id, ok: false, reason: repo.reason, detail: repo.detail }
  parentPort?.postMessage(reply, repo.ok ? [car] : [])
})
