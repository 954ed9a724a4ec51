import assert from 'node:assert/strict'
import { test } from 'node:test'
import { printable, textLines, textTable } from './text-table.ts'

const columns = ['hostname', 'state', 'stateReason', 'lagSeconds', 'budgets', 'cursor']
const rows = [
  { hostname: 'pds.example.com', state: 'live', lagSeconds: 0, budgets: 'x'.repeat(60), cursor: 12_345 },
  { hostname: `${'long-'.repeat(12)}name.example`, state: 'idle', lagSeconds: 7, budgets: 'few', cursor: 7 },
]

test('a table fits, its headings are words, and it names what does not fit', () => {
  const { text, hidden } = textTable(rows, columns, { width: 80 })
  const lines = text.trimEnd().split('\n')
  assert.match(lines[0] ?? '', /^HOSTNAME +STATE +LAG SECONDS +CURSOR$/)
  assert.ok(
    lines.every((line) => line.length <= 80),
    text,
  )
  assert.match(lines[2] ?? '', /^long-[^ ]*… +idle +7 +7$/)
  assert.deepEqual(hidden, ['budgets'])
})

test('a wide table has every column and every word', () => {
  const { text, hidden } = textTable(rows, columns, { width: Infinity })
  assert.match(text, /^HOSTNAME +STATE +STATE REASON +LAG SECONDS +BUDGETS +CURSOR$/m)
  assert.ok(text.includes('x'.repeat(60)) && text.includes('name.example'))
  assert.deepEqual(hidden, [])
})

test('a terminal that is too narrow still gets the first column, and no commands of others', () => {
  const { text } = textTable([{ hostname: 'a\u001b[31mb' }], columns, { width: 4 })
  assert.equal(text, 'HOSTNAME\na [31mb\n')
})

test('a table and a list have as many rows as they need', () => {
  const many = Array.from({ length: 200_000 }, (_, seq) => ({ seq }))
  assert.equal(textTable(many, ['seq'], { width: 80 }).text.split('\n').length, 200_002)
  const values = Object.fromEntries(many.map(({ seq }) => [`n${seq}`, seq]))
  assert.equal(textLines(values).split('\n').length, 200_001)
})

test('nothing that turns or breaks a line is printed, in a name of a value neither', () => {
  const text = 'a\u202egpj.exe\u2028b\u2066c\u200bd\u009b2J'
  assert.equal(printable(text), 'a gpj.exe b c d 2J')
  assert.equal(textLines({ [text]: text }), `${printable(text)}  ${printable(text)}\n`)
})

test('what is too wide for a cell is a line below its row, and a column of a wide table', () => {
  const below = { columns: ['budgets'], textOf: ({ budgets }: Record<string, unknown>) => String(budgets) }
  const { text, hidden } = textTable(rows, columns, { width: 40, below })
  const lines = text.trimEnd().split('\n')
  assert.deepEqual([lines.length, lines[2], lines[4]], [5, `  ${'x'.repeat(37)}…`, '  few'])
  assert.equal(hidden.includes('budgets'), false)
  const wide = textTable(rows, columns, { width: Infinity, below }).text
  assert.match(wide, /^HOSTNAME .* BUDGETS +CURSOR\n.*\n.*\n$/)
})
