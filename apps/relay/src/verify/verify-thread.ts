/** A thread that verifies commits and syncs, batch by batch. It knows keys and nothing else. */
import { serveVerification } from '@tributary/verify-pool'
import { verdictText } from './verdict-text.ts'
import { Verifier } from './verifier.ts'

const verifier = new Verifier()
serveVerification({
  verify: (bytes, key, isStrict) => verifier.verify(bytes, key, isStrict),
  write: verdictText,
})
