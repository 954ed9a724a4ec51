/** Keeps writing small things that the cast would do, so that there is always something to see. */
import type { Account } from '@tributary/testkit'
import type { Cast } from './cast.ts'
import { pauseUnless } from './pause.ts'
import type { Testkit } from './testkit.ts'

const doings = [
  'Tree planting',
  'Well repair',
  'Beach cleaning',
  'Seed saving',
  'Night school',
  'Bike workshop',
]
const places = ['north plot', 'old harbour', 'village', 'river bend', 'school yard', 'upper valley']
/** Activities that may still be changed, evaluated or deleted. */
const rememberedMax = 40

interface Remembered {
  account: Account
  rkey: string
  ref: { uri: string; cid: string }
  record: Record<string, unknown>
}

/** Writes about `writesPerSecond` records until the signal aborts. `onWritten` follows each acknowledged write. */
export async function keepWriting(
  cast: Cast,
  testkit: Testkit,
  options: { writesPerSecond: number; onWritten: () => void; signal: AbortSignal },
): Promise<void> {
  const writer = new Writer(cast, testkit)
  while (!options.signal.aborted) {
    const startedAt = performance.now()
    await writer.writeSomething()
    options.onWritten()
    const restMs = 1000 / options.writesPerSecond - (performance.now() - startedAt)
    await pauseUnless(options.signal, Math.max(0, restMs))
  }
}

class Writer {
  readonly #cast: Cast
  readonly #sampleRecord: Testkit['sampleRecord']
  readonly #activities: Remembered[] = []

  constructor(cast: Cast, { sampleRecord }: Testkit) {
    this.#cast = cast
    this.#sampleRecord = sampleRecord
  }

  async writeSomething(): Promise<void> {
    const about = pick(this.#activities)
    const dice = Math.random()
    if (about === undefined || dice < 0.3) await this.#act()
    else if (dice < 0.45) await this.#rename(about)
    else if (dice < 0.6)
      await this.#write('org.impact.context.evaluation', { subject: about.ref, summary: 'Seen and counted.' })
    else if (dice < 0.72)
      await this.#write('org.impact.context.measurement', { subjects: [about.ref], metric: 'hours' })
    else if (dice < 0.84)
      await this.#write('org.impact.context.attachment', { subjects: [about.ref], title: 'News' })
    else if (dice < 0.92) await this.#gather(about)
    else await this.#remove(about)
  }

  get #author(): Account {
    const { alice, bob, carol, greenbelt } = this.#cast
    return pick([alice, bob, carol, greenbelt]) ?? alice
  }

  async #write(collection: string, fields: Record<string, unknown>): Promise<void> {
    await this.#author.create(collection, this.#sampleRecord(collection, fields))
  }

  async #act(): Promise<void> {
    const account = this.#author
    const title = `${pick(doings)}, ${pick(places)}`
    const record = this.#sampleRecord('org.impact.claim.activity', { title })
    const ref = await account.create('org.impact.claim.activity', record)
    const rkey = ref.uri.slice(ref.uri.lastIndexOf('/') + 1)
    this.#activities.push({ account, rkey, ref: { uri: ref.uri, cid: ref.cid }, record })
    if (this.#activities.length > rememberedMax) this.#activities.shift()
  }

  async #rename(activity: Remembered): Promise<void> {
    const record = {
      ...activity.record,
      title: `${String(activity.record['title']).split(' (')[0]} (day ${1 + Math.floor(Math.random() * 30)})`,
    }
    const { uri, cid } = await activity.account.put('org.impact.claim.activity', activity.rkey, record)
    Object.assign(activity, { record, ref: { uri, cid } })
  }

  /** A collection with the activity in it: a project, when the activity is less than a minute old. */
  async #gather({ account, ref }: Remembered): Promise<void> {
    const fields = { title: `Project of ${account.handle}`, items: [{ itemIdentifier: ref }] }
    await account.create('org.impact.collection', this.#sampleRecord('org.impact.collection', fields))
  }

  async #remove(activity: Remembered): Promise<void> {
    this.#activities.splice(this.#activities.indexOf(activity), 1)
    await activity.account.delete('org.impact.claim.activity', activity.rkey)
  }
}

function pick<T>(from: readonly T[]): T | undefined {
  return from[Math.floor(Math.random() * from.length)]
}
