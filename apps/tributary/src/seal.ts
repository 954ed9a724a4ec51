import { attempt } from './attempt.ts'
import { hasFields } from './answer-lists.ts'
import { callService, fieldsOf, notOurs } from './call-service.ts'
import { printJson } from './print-json.ts'
import { readOperatorToken } from './read-token-file.ts'

interface Segment {
  name: string
  eventCount: number
  minSeq: number
  maxSeq: number
}

interface Sealed {
  /** Everything up to here is sealed. */
  sealedSeq: number
  /** Absent when all of it was sealed already. */
  segment?: Segment
}

const segmentKinds = { name: 'string', eventCount: 'number', minSeq: 'number', maxSeq: 'number' } as const

/** Asks a stream to seal what it has archived so far. */
export async function sealArchive(streamUrl: string, operatorToken: string): Promise<Sealed> {
  const body = await callService(streamUrl, 'network.social.stream.admin.sealSegment', {
    method: 'POST',
    headers: { authorization: `Bearer ${operatorToken}` },
  })
  const { sealedSeq, segment } = fieldsOf(streamUrl, body, 'sealedSeq')
  const isOurs = typeof sealedSeq === 'number' && (segment === undefined || hasFields(segment, segmentKinds))
  if (!isOurs) throw notOurs(streamUrl, 'with a seal of another form')
  return { sealedSeq, ...(segment !== undefined && { segment: segment as unknown as Segment }) } // it has these fields
}

export interface SealOptions {
  url: string
  operatorTokenFile: string
  json: boolean
}

/** `tributary seal`. Returns the exit code. */
export async function runSeal({ url, operatorTokenFile, json }: SealOptions): Promise<number> {
  return await attempt('tributary seal', async () => {
    const { sealedSeq, segment } = await sealArchive(url, readOperatorToken(operatorTokenFile))
    if (json) printJson({ sealedSeq, ...segment, isChanged: segment !== undefined })
    else if (segment) process.stdout.write(`sealed through seq ${sealedSeq}\n`)
    else if (sealedSeq === 0) process.stdout.write('nothing to change: the stream has no event yet\n')
    else process.stdout.write(`nothing to change: everything is sealed, through seq ${sealedSeq}\n`)
  })
}
