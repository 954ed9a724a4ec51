/** `tributary verify --live`: reads a relay's firehose and checks everything that a consumer can. */
import { createResolver } from '@tributary/identity'
import { limits } from '@tributary/protocol'
import { WebSocket } from 'ws'
import { messageOf } from '../call-service.ts'
import { counted } from '../counted.ts'
import { exitCodes } from '../exit-codes.ts'
import { printable } from '../operator/text-table.ts'
import { jsonText } from '../print-json.ts'
import { sayError } from '../say.ts'
import { stopSignal } from '../stop-signal.ts'
import { earlierKeysOf } from './key-history.ts'
import { LiveCheck, type LiveFault } from './live-check.ts'
import { WaitingMessages } from './waiting-messages.ts'

export interface VerifyLiveOptions {
  /** Address of the relay. */
  live: string
  /** The PLC directory. */
  plc: string
  /** Start after this seq instead of now. */
  cursor?: number
  /** End after this many seconds. */
  for?: number
  /** End after this many messages. */
  count?: number
  /** Each fault and the counts as one JSON object a line. */
  json: boolean
  /** Hosts of `did:web` accounts that may be on private addresses. */
  allowedPrivateHosts?: string
}

/**
 * Runs until it is stopped, a limit is reached or the relay closes. Returns the exit code: 1 when something was wrong, or
 * when the relay ended it, else 69 when messages could not be checked.
 */
export async function runVerifyLive(options: VerifyLiveOptions): Promise<number> {
  const url = addressOf(options)
  if (!url) {
    sayError(`tributary verify: ${options.live} is not the address of a relay`)
    return exitCodes.usage
  }
  const allowedPrivateHosts = (options.allowedPrivateHosts ?? '').split(',').filter((host) => host !== '')
  const where = { plcUrl: options.plc, allowedPrivateHosts }
  const check = new LiveCheck({
    resolver: createResolver(where),
    earlierKeysOf: (did) => earlierKeysOf(did, where),
    onFault: options.json ? (fault) => printLine({ fault }) : printFault,
    onUnchecked: options.json ? (notChecked) => printLine({ notChecked }) : printUnchecked,
  })
  const ending = await read(url, check, options)
  if (options.json) {
    const { messages, counts, accounts, lastSeq, faults, unchecked } = check
    printLine({
      messages,
      counts,
      accounts,
      lastSeq,
      faults,
      unchecked,
      ...(ending && { ending: ending.reason }),
    })
  } else if (!ending?.isUnanswered) process.stdout.write(textOfCounts(check))
  if (ending) sayError(`tributary verify: ${ending.reason}`)
  if (ending?.isUnanswered) return exitCodes.noAnswer
  if (check.faults > 0 || ending) return exitCodes.failed
  return check.unchecked > 0 ? exitCodes.noAnswer : exitCodes.done
}

function textOfCounts({ counts, messages, accounts, lastSeq, faults }: LiveCheck): string {
  const kinds = Object.entries(counts).map(([kind, count]) => `${count} ${kind}`)
  return `${counted(messages, 'message')} (${kinds.join(', ') || 'none'}) of ${counted(accounts, 'account')}, up to seq ${lastSeq}: ${counted(faults, 'fault')}\n`
}

function printLine(value: unknown): void {
  process.stdout.write(`${jsonText(JSON.stringify(value))}\n`)
}

function addressOf({ live, cursor }: VerifyLiveOptions): string | undefined {
  const url = URL.parse(live.includes('://') ? live.replace(/^http/, 'ws') : `wss://${live}`)
  if (!url || !/^wss?:$/.test(url.protocol)) return undefined
  if (url.search !== '' || url.hash !== '') return undefined
  // A path is kept: the method is below it, unless it is there already.
  const base = url.pathname.replace(/\/(xrpc\/com\.atproto\.sync\.subscribeRepos)?\/*$/, '')
  url.pathname = `${base}/xrpc/com.atproto.sync.subscribeRepos`
  url.search = cursor === undefined ? '' : `?cursor=${cursor}`
  return url.href
}

/** Why reading ended, where that was not our own choice. */
interface Ending {
  reason: string
  /** No subscription was opened at all. */
  isUnanswered: boolean
}

/** Checks one message after the other until the end. */
async function read(url: string, check: LiveCheck, options: VerifyLiveOptions): Promise<Ending | undefined> {
  const stops = [stopSignal()]
  if (options.for !== undefined) stops.push(AbortSignal.timeout(options.for * 1000))
  const stop = AbortSignal.any(stops)
  const socket = new WebSocket(url, { maxPayload: limits.messageBytes, perMessageDeflate: false })
  const waiting = new WaitingMessages(socket)
  const state: { isOpened: boolean; isOver: boolean; ending?: Ending } = { isOpened: false, isOver: false }
  let wake = (): void => {}
  const end = (reason?: string): void => {
    if (!state.isOver && reason !== undefined) state.ending = { reason, isUnanswered: !state.isOpened }
    state.isOver = true
    wake()
  }
  socket.on('open', () => (state.isOpened = true))
  socket.on('message', (data: Buffer) => {
    waiting.add(data)
    wake()
  })
  socket.on('error', (error) =>
    end(`${new URL(url).host} did not answer as a relay: ${messageOf(error, url)}`),
  )
  socket.on('close', (code, reason) => end(`the relay closed with ${code} ${reason.toString()}`.trim()))
  stop.addEventListener('abort', () => end())
  while (!(state.isOver && (waiting.count === 0 || stop.aborted))) {
    const message = waiting.take()
    if (!message) {
      await new Promise<void>((resolve) => (wake = resolve))
      continue
    }
    await check.check(message)
    if (options.count !== undefined && check.messages >= options.count) {
      end()
      break
    }
  }
  socket.terminate()
  return state.ending
}

function printFault({ reason, ...found }: LiveFault): void {
  printFound(`fault: ${reason}`, found)
}

function printUnchecked(found: Omit<LiveFault, 'reason'>): void {
  printFound('not checked:', found)
}

function printFound(what: string, { seq, did, detail }: Omit<LiveFault, 'reason'>): void {
  const text = `${what} at seq ${seq ?? 'unknown'} of ${did ?? 'unknown'}: ${detail}`
  process.stdout.write(`${printable(text)}\n`)
}
