import { attempt } from './attempt.ts'
import { callService, fieldsOf } from './call-service.ts'
import { printJson } from './print-json.ts'
import { readOperatorToken } from './read-token-file.ts'

interface Sealed {
  /** Everything up to here is sealed. */
  sealedSeq: number
  /** Absent when all of it was sealed already. */
  segment?: { name: string; eventCount: number; minSeq: number; maxSeq: number }
}

/** Asks a stream to seal what it has archived so far. */
export async function sealArchive(streamUrl: string, operatorToken: string): Promise<Sealed> {
  const body = await callService(streamUrl, 'network.social.stream.admin.sealSegment', {
    method: 'POST',
    headers: { authorization: `Bearer ${operatorToken}` },
  })
  return fieldsOf(streamUrl, body, 'sealedSeq') as unknown as Sealed // by its lexicon
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
