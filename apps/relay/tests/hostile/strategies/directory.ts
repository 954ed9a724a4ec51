/** The directory is slow, away or not well for a while, and hostile accounts ask for what it does not give. */
import { repeat, type Stage, type Strategy } from '../stage.ts'
import type { Weather } from '../directory.ts'

export const directory: Readonly<Record<string, Strategy>> = {
  'directory-away': (stage) => under(stage, { isAway: true }),
  'directory-slow': (stage) => under(stage, { delayMs: 4000 }),
  'directory-fails': (stage) => under(stage, { status: 503 }),
  'directory-throttles': (stage) => under(stage, { status: 429 }),
}

/** New accounts and moved ones speak while the directory cannot be asked. */
async function under(stage: Stage, weather: Weather): Promise<void> {
  await stage.wish({ weather })
  try {
    await repeat(stage, 40, async (index) => {
      const host = stage.random.pick(stage.hosts)
      const other = stage.random.pick(stage.hosts)
      const account = stage.random.pick([...host.accounts.values()])
      if (index % 4 === 0) await host.createHostile()
      else if (index % 4 === 1) account.announceIdentity({})
      else if (index % 4 === 2) other.emit('#account', { did: account.did, active: true })
      else account.create('org.impact.collection', { title: 'meanwhile' })
      stage.count('events')
    })
  } finally {
    await stage.wish({ weather: {} })
  }
}
