/** One merged log of all services: JSON lines as they are for machines, one readable line each for a terminal. */
import { printable } from '../operator/text-table.ts'

const levelColors: Record<string, string> = { warn: '33', error: '31', fatal: '31' }

/** Fields that every line has, or that are shown at another place. */
const shownElsewhere = new Set(['time', 'level', 'service', 'msg', 'pid', 'hostname'])

/** How a line of a service appears in the merged log. Lines that are no JSON get a frame of their own. */
export function renderLine(service: string, line: string, style: 'json' | 'terminal'): string {
  const entry = parse(line) ?? { time: new Date().toISOString(), level: 'error', service, msg: line }
  if (style === 'json') return JSON.stringify({ service, ...entry })
  const time = new Date(String(entry['time'])).toTimeString().slice(0, 8)
  const level = printable(String(entry['level']))
  const rest = Object.entries(entry)
    .filter(([key]) => !shownElsewhere.has(key))
    .map(([key, value]) => `${key}=${shorten(value)}`)
  const color = levelColors[level]
  const text = printable([shorten(entry['msg'] ?? ''), ...rest].join(' '))
  return `${time} ${service.padEnd(6)} ${color === undefined ? text : `\x1b[${color}m${level} ${text}\x1b[0m`}`
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
  } catch {
    return undefined
  }
}

/** Errors appear with their message, everything else as short JSON. */
function shorten(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'message' in value) return JSON.stringify(value.message)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}
