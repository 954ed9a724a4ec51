import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** What is used of a V8 CPU profile. */
interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[]
  samples: number[]
  /** Microseconds before each sample. */
  timeDeltas: number[]
}

interface Cost {
  name: string
  /** File and line, or nothing for what is native. */
  place: string
  milliseconds: number
}

const shownMax = 25

/** Time spent in each function itself, most expensive first; waiting is left out. */
function selfCosts({ nodes, samples, timeDeltas }: CpuProfile): Cost[] {
  const byId = new Map(nodes.map((node) => [node.id, node.callFrame]))
  const costs = new Map<string, Cost>()
  for (const [index, id] of samples.entries()) {
    const frame = byId.get(id)
    if (frame === undefined || frame.functionName === '(idle)') continue
    const { functionName, url, lineNumber } = frame
    const path = url.startsWith('file:') ? fileURLToPath(url) : url
    const place = path === '' ? '' : `${path}:${lineNumber + 1}`
    const key = `${functionName} ${place}`
    const cost = costs.get(key) ?? { name: functionName || '(anonymous)', place, milliseconds: 0 }
    cost.milliseconds += (timeDeltas[index] ?? 0) / 1000
    costs.set(key, cost)
  }
  return [...costs.values()].toSorted((left, right) => right.milliseconds - left.milliseconds)
}

/** The most expensive functions of every profile in a folder. */
export function describeProfiles(directory: string): string {
  const files = readdirSync(directory).filter((name) => name.endsWith('.cpuprofile'))
  return files
    .map((file) => {
      const profile = JSON.parse(readFileSync(join(directory, file), 'utf8')) as CpuProfile // reason: written by V8.
      const costs = selfCosts(profile)
      const total = costs.reduce((sum, { milliseconds }) => sum + milliseconds, 0)
      const lines = costs.slice(0, shownMax).map(({ name, place, milliseconds }) => {
        const share = `${((milliseconds * 100) / total).toFixed(1)} %`
        return `${milliseconds.toFixed(0).padStart(8)} ms ${share.padStart(7)}  ${name}  ${shortPlace(place)}`
      })
      return [`${basename(file)}: ${total.toFixed(0)} ms`, ...lines, ''].join('\n')
    })
    .join('\n')
}

/** From the workspace or the package on. */
function shortPlace(place: string): string {
  return place.replace(/^.*\/(?=(?:packages|apps|bench|node_modules)\/)/, '')
}
