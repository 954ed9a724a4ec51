import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuseUnknownWord } from './known-word.ts'

const reasons = ['bad-signature', 'wrong-host']

test('a word that is none of a closed set is refused with the closest one, or else with all', () => {
  refuseUnknownWord('reason', undefined, reasons)
  refuseUnknownWord('reason', 'wrong-host', reasons)
  const refused = (word: string, message: string): void =>
    assert.throws(() => refuseUnknownWord('reason', word, reasons), { error: 'InvalidRequest', message })
  refused('bad-signatures', 'there is no reason bad-signatures: did you mean bad-signature?')
  refused('', 'there is no reason : use one of bad-signature, wrong-host')
  refused('nonsense', 'there is no reason nonsense: use one of bad-signature, wrong-host')
})
