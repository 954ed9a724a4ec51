import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStateDatabase } from '../state-database.ts'
import { ArchivedRecords, broughtLive } from './archived-records.ts'

const did = 'did:plc:a'

test('notes that are forgotten go piece by piece, also after a stop, and count for nothing meanwhile', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const stored = database.prepare<[], number>('SELECT count(*) FROM archived_records').pluck()
  const save = (records: ArchivedRecords): void => {
    records.take()
    records.write()
    records.written()
  }
  const records = new ArchivedRecords(database)
  for (let n = 0; n < 2500; n++) records.note(did, `a.b.c/${n}`, broughtLive)
  records.note('did:plc:b', 'a.b.c/1', broughtLive)
  save(records)
  records.forget(did)
  save(records)
  assert.deepEqual([stored.get(), records.has(did)], [1501, false])
  records.note(did, 'a.b.c/7', 'cid')
  save(records)
  assert.equal(stored.get(), 501)
  const next = new ArchivedRecords(database)
  assert.deepEqual([...next.of(did)], [['a.b.c/7', 'cid']])
  assert.equal(next.get(did, 'a.b.c/8'), undefined)
  save(next)
  assert.equal(stored.get(), 2)
  assert.deepEqual([...next.of(did)], [['a.b.c/7', 'cid']])
  assert.ok(next.has('did:plc:b'))
})
