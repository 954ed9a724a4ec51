import { ratio, type Figure, type Reference } from './figure.ts'

const nameWidth = 62
const valueWidth = 16

/** The figures of one scenario as text: a line each, and under it one line per reference with its ratio. */
export function reportOf(scenario: string, figures: readonly Figure[]): string {
  return [scenario, ...figures.flatMap(linesOf), ''].join('\n')
}

function linesOf(figure: Figure): string[] {
  const { name, value, unit, references, note } = figure
  return [
    line(`  ${name}`, formatNumber(value), unit),
    ...references.map((reference) =>
      line(`    ${reference.name}`, formatReference(reference), formatRatio(ratio(figure, reference))),
    ),
    ...(note === undefined ? [] : [`    (${note})`]),
  ]
}

function line(name: string, value: string, rest: string): string {
  return `${name.padEnd(nameWidth)}${value.padStart(valueWidth)}  ${rest}`.trimEnd()
}

function formatReference({ value }: Reference): string {
  return typeof value === 'number' ? formatNumber(value) : value.map(formatNumber).join(' to ')
}

/** Above 1: so many times better than the reference. */
function formatRatio(times: number): string {
  return Number.isNaN(times) ? '' : `${formatNumber(times)}×`
}

/** Three significant digits, whole thousands apart. */
function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return '-'
  const size = Math.abs(value)
  if (size >= 100) return Math.round(value).toLocaleString('en-US')
  if (size === 0) return '0'
  return value.toFixed(Math.max(0, 2 - Math.floor(Math.log10(size))))
}
