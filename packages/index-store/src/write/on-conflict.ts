import { columnsOf, type TableName, tables } from '../tables.ts'

/** What follows `values` when rows are put, in a form that both databases take. A row that is the same already is not written, and no index of it is. */
export function onConflict(table: TableName): string {
  const key: readonly string[] = tables[table].key
  const others = columnsOf(table)
    .map(([name]) => name)
    .filter((name) => !key.includes(name))
  if (key.length === 0 || others.length === 0) return 'on conflict do nothing'
  const sets = others.map((name) => `"${name}" = excluded."${name}"`).join(', ')
  const differs = others
    .map((name) => `"${table}"."${name}" is distinct from excluded."${name}"`)
    .join(' or ')
  return `on conflict (${quoted(key)}) do update set ${sets} where ${differs}`
}

export function quoted(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(', ')
}
