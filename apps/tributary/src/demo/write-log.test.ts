import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WriteLog } from './write-log.ts'

function logOf(...writes: (readonly [did: string, rkey: string])[]): WriteLog {
  const log = new WriteLog()
  for (const [did, rkey] of writes) log.add(did, { action: 'create', collection: 'c', rkey, cid: 'x' })
  return log
}

test('a log differs by a write that is missing, changed in place, or was never made, by whomever', () => {
  const expected = logOf(['a', '1'], ['a', '2'])
  assert.equal(logOf(['a', '1'], ['a', '2']).differenceTo(expected), undefined)
  assert.match(
    logOf(['a', '1']).differenceTo(expected) ?? '',
    /write 2: expected create c\/2 x, found nothing/,
  )
  assert.match(logOf(['a', '2'], ['a', '1']).differenceTo(expected) ?? '', /write 1/)
  const more = logOf(['a', '1'], ['a', '2'], ['a', '3'])
  assert.match(more.differenceTo(expected) ?? '', /a: 1 writes that were never made/)
  assert.match(
    logOf(['a', '1'], ['a', '2'], ['b', '1']).differenceTo(expected) ?? '',
    /b: 1 writes that were/,
  )
})
