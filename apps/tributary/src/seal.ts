import { callService } from './call-service.ts'
import { exitCodeOf } from './exit-codes.ts'
import { printJson } from './print-json.ts'
import { readOperatorToken } from './read-token-file.ts'

/** Asks a stream to seal what it has archived so far. Resolves with the last sealed seq, undefined if all was sealed. */
export async function sealArchive(streamUrl: string, operatorToken: string): Promise<number | undefined> {
  const body = (await callService(streamUrl, 'network.social.stream.admin.sealSegment', {
    method: 'POST',
    headers: { authorization: `Bearer ${operatorToken}` },
  })) as { segment?: { maxSeq: number } } // as the method answers
  return body.segment?.maxSeq
}

export interface SealOptions {
  url: string
  operatorTokenFile: string
  json: boolean
}

/** `tributary seal`. Returns the exit code. */
export async function runSeal({ url, operatorTokenFile, json }: SealOptions): Promise<number> {
  try {
    const seq = await sealArchive(url, readOperatorToken(operatorTokenFile))
    if (json) printJson({ sealedThroughSeq: seq ?? null })
    else if (seq === undefined) process.stdout.write('nothing to seal: everything is sealed\n')
    else process.stdout.write(`sealed through seq ${seq}\n`)
    return 0
  } catch (error) {
    process.stderr.write(`tributary seal: ${error instanceof Error ? error.message : String(error)}\n`)
    return exitCodeOf(error)
  }
}
