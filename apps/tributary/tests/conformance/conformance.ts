import { after, before, test } from 'node:test'
import { Case } from './case.ts'
import { World, type WorldOptions } from './world.ts'

/** Plays a case of the feed specification by its number. */
export type Conformance = (number: number, what: string, run: (at: Case) => Promise<void>) => void

/** Starts the services for the cases of a file. */
export function startConformance(options: WorldOptions = {}): Conformance {
  let world: World
  before(async () => {
    world = await World.start(options)
  })
  after(() => world[Symbol.asyncDispose]())
  return (number, what, run) => {
    test(`case ${number}: ${what}`, () => run(new Case(world, number)))
  }
}
