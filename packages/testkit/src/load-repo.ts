/** The repositories of a load as they are after some of its events. */
import { decode, decodeFirst, fromBytes, fromCidLink } from '@atcute/cbor'
import type { Bytes, CidLink } from '@atcute/cbor'
import { cidKey } from './cid.ts'
import type { Block, Cid } from './cid.ts'
import { decodeCar } from './commit-event.ts'
import { revAt } from './load-file.ts'
import type { Load } from './load-file.ts'
import { allNodes, emptyTree, insert } from './mst.ts'

export interface LatestCommit {
  rev: string
  commit: Block
}

interface CommitPayload {
  commit: CidLink
  blocks: Bytes
  ops: { path: string; cid: CidLink | null }[]
}

function payloadOf(load: Load, event: number): CommitPayload {
  const [, payload] = decodeFirst(load.readMessage(event))
  return decode(payload) as CommitPayload // reason: the load was written by createLoad.
}

/** The index of the last event of each account below `head`, -1 for an account that has none. */
export function lastEvents(load: Load, head: number): Int32Array {
  const last = new Int32Array(load.info.accounts.length).fill(-1)
  for (let event = 0; event < head; event++) last[load.accountOf[event] ?? 0] = event
  return last
}

/** The commit of one event. */
export function commitAt(load: Load, event: number): LatestCommit {
  const { commit, blocks } = payloadOf(load, event)
  const { cid, bytes } = blockIn(decodeCar(fromBytes(blocks)), fromCidLink(commit).bytes)
  return { rev: revAt(load.info, event), commit: { cid, bytes } }
}

function blockIn(car: Map<string, Uint8Array>, cid: Cid): Block {
  const bytes = car.get(cidKey(cid))
  if (bytes === undefined) throw new Error('a commit of the load lacks one of its blocks')
  return { cid, bytes }
}

/**
 * The whole repository of an account after the events below `head`, the commit first: its records
 * give its tree. The account must have an event there.
 */
export function repoBlocks(load: Load, account: number, head: number): Block[] {
  const records = new Map<string, Block>()
  let last = -1
  for (let event = 0; event < head; event++) {
    if (load.accountOf[event] !== account) continue
    last = event
    const { blocks, ops } = payloadOf(load, event)
    const car = decodeCar(fromBytes(blocks))
    for (const { path, cid } of ops) {
      if (cid === null) records.delete(path)
      else records.set(path, blockIn(car, fromCidLink(cid).bytes))
    }
  }
  let tree = emptyTree
  for (const [path, { cid }] of records) tree = insert(tree, path, cid)
  const nodes = Array.from(allNodes(tree), (node) => node.block)
  return [commitAt(load, last).commit, ...nodes, ...records.values()]
}
