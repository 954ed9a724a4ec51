/** A verifying thread of the tests. A message that says so ends it. */
import { serveVerification } from '@tributary/verify-pool'
import { deadly, verify } from './verify.ts'

let policy = ''
serveVerification({
  verify(bytes, key, isStrict) {
    if (bytes.includes(deadly(policy))) process.exit()
    return verify(bytes, key, isStrict, policy)
  },
  write: ({ rev, policy: of }) => `${rev} ${of}`,
  onPolicy: (value) => (policy = String(value)),
})
