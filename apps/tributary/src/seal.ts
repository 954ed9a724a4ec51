import { callService } from './call-service.ts'
import { exitCodeOf } from './exit-codes.ts'
import { readOperatorToken } from './read-operator-token.ts'

/** Asks a stream to seal what it has archived so far. Resolves with the last sealed seq, undefined if all was sealed. */
export async function sealArchive(streamUrl: string, operatorToken: string): Promise<number | undefined> {
  const body = (await callService(streamUrl, 'network.social.stream.admin.sealSegment', {
    method: 'POST',
    headers: { authorization: `Bearer ${operatorToken}` },
  })) as { segment?: { maxSeq: number } } // as the method answers
  return body.segment?.maxSeq
}

/** `tributary seal`. Returns the exit code. */
export async function runSeal(streamUrl: string, operatorTokenFile: string): Promise<number> {
  try {
    const seq = await sealArchive(streamUrl, readOperatorToken(operatorTokenFile))
    process.stdout.write(
      seq === undefined ? 'nothing to seal: everything is sealed\n' : `sealed through seq ${seq}\n`,
    )
    return 0
  } catch (error) {
    process.stderr.write(`tributary seal: ${error instanceof Error ? error.message : String(error)}\n`)
    return exitCodeOf(error)
  }
}
