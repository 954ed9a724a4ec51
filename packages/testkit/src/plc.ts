import { freePort } from './free-port.ts'
import { listenOnLoopback } from './loopback.ts'

/** A real PLC directory in this process, with its operations in memory. */
export interface Plc extends AsyncDisposable {
  readonly url: string
  stop(): Promise<void>
  /** Comes back on the same address with the operations it held. */
  start(): Promise<void>
}

/** Starts a PLC directory on a free port of the loopback interface. */
export async function startPlc(): Promise<Plc> {
  // Read by its logger when it is imported.
  process.env['LOG_ENABLED'] ??= 'false'
  const { Database, PlcServer } = await import('@did-plc/server')
  const port = await freePort()
  const database = Database.mock()
  let server: InstanceType<typeof PlcServer> | undefined

  const plc: Plc = {
    url: `http://localhost:${port}`,
    async start() {
      server = PlcServer.create({ db: database, port })
      listenOnLoopback(server.app)
      await server.start()
    },
    async stop() {
      const running = server
      server = undefined
      await running?.destroy()
    },
    async [Symbol.asyncDispose]() {
      await plc.stop()
    },
  }
  await plc.start()
  return plc
}
