import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Did } from '@tributary/protocol'
import { createResolver, IdentityError, type IdentityResolver, type ResolverOptions } from '../src/index.ts'
import { sampleDid, sampleDocument } from './sample-document.ts'
import { WebServer } from './web-server.ts'

export const startMs = 1_800_000_000_000
export const hourMs = 3_600_000
export const alice: Did = sampleDid(1)
export const bob: Did = sampleDid(2)

/** A PLC directory that knows two accounts, a resolver that asks it, and the time. */
export class World implements AsyncDisposable {
  readonly plc: WebServer
  readonly resolver: IdentityResolver
  nowMs = startMs

  private constructor(plc: WebServer, options: Partial<ResolverOptions>) {
    this.plc = plc
    plc.serve({ [`/${alice}`]: sampleDocument(alice), [`/${bob}`]: sampleDocument(bob) })
    this.resolver = createResolver({
      plcUrl: plc.url,
      allowedPrivateHosts: [],
      nowMs: () => this.nowMs,
      // The clock stands still unless a test moves it, and then nobody has a second turn.
      plcPerSecond: 1e6,
      ...options,
    })
  }

  static async start(options: Partial<ResolverOptions> = {}): Promise<World> {
    return new World(await WebServer.start(), options)
  }

  /** Holds back answers; the returned function gives the one to the nth request so far. */
  hold(): (n: number) => void {
    const held: [string, ServerResponse][] = []
    const { handler } = this.plc
    this.plc.handler = (path, response) => void held.push([path, response])
    return (n) => {
      const [path, response] = held[n] ?? assert.fail('no such request')
      handler(path, response, response.req)
    }
  }

  async refused(did: Did, options?: { refreshAfter?: number; onBehalfOf?: string }): Promise<IdentityError> {
    try {
      await this.resolver.resolve(did, options)
    } catch (error) {
      assert.ok(error instanceof IdentityError)
      return error
    }
    return assert.fail('it was resolved')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.plc[Symbol.asyncDispose]()
  }
}

/** Serves any document, to a resolver whose clock moves only while it waits. */
export async function startSlow(perSecond: number, onWait: () => void = () => {}): Promise<World> {
  const world: World = await World.start({
    plcPerSecond: perSecond,
    delay: async (ms) => {
      // Waits may overlap.
      const untilMs = world.nowMs + ms
      await nextTurn()
      onWait()
      world.nowMs = Math.max(world.nowMs, untilMs)
    },
  })
  world.plc.handler = (path, response) => response.end(JSON.stringify(sampleDocument(path.slice(1))))
  return world
}
