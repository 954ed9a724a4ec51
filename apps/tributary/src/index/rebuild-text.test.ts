import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rebuildText, rebuildTrouble } from './rebuild-text.ts'

test('a rebuild shows how far the next generation has come towards the present one', () => {
  const present = { generation: 3, cursor: 2000 }
  assert.match(rebuildText([present], 3), /^waiting for the index to begin/)
  assert.equal(
    rebuildText([present, { generation: 4, cursor: 500 }], 3),
    '[######..................] 25 %  seq 500 of 2000',
  )
  assert.match(rebuildText([present, { generation: 4, cursor: 2001 }], 3), /^\[#{24}\] 100 % {2}seq 2001/)
  assert.match(
    rebuildText(
      [
        { generation: 3, cursor: 0 },
        { generation: 4, cursor: 0 },
      ],
      3,
    ),
    / 100 % /,
  )
})

test('a rebuild that waits says why, and no other does', () => {
  const detail = 'the stream answered 401'
  assert.equal(rebuildTrouble({ rebuild: { state: 'waiting', detail } }), detail)
  assert.equal(rebuildTrouble({ rebuild: { state: 'live', detail: '' } }), undefined)
  assert.equal(rebuildTrouble({}), undefined)
  assert.equal(rebuildTrouble(undefined), undefined)
})
