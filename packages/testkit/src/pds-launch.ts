import type { PDS, ServerEnvironment } from '@atproto/pds'
import { listenOnLoopback } from './loopback.ts'

/** What one PDS is started with. The same values on the same folder bring the same PDS back. */
export interface PdsSettings {
  port: number
  plcUrl: string
  /** Folder of its databases and blobs. It must exist. */
  directory: string
  /** Handles end in this, for example `.pds1.test`. */
  handleDomain: string
  adminPassword: string
  rotationKeyHex: string
  /** Relays that it announces itself to, by base address. */
  crawlers?: readonly string[]
  /** Any further setting, named as in `ServerEnvironment` of `@atproto/pds`. */
  more?: Partial<ServerEnvironment>
}

/**
 * Starts a real PDS in this process. `destroy()` of the result stops it.
 * The import is late because it takes two seconds and most tests need no PDS.
 */
export async function launchPds(settings: PdsSettings): Promise<PDS> {
  // Read by the PDS's logger when it is imported; its log would drown the test's output.
  process.env['LOG_ENABLED'] ??= 'false'
  const { PDS, envToCfg, envToSecrets } = await import('@atproto/pds')
  const environment: ServerEnvironment = {
    port: settings.port,
    // The only name that gives an http:// public address.
    hostname: 'localhost',
    // The default is did:web:localhost for every PDS, which breaks migration between them.
    serviceDid: `did:web:localhost%3A${settings.port}`,
    devMode: true,
    inviteRequired: false,
    didPlcUrl: settings.plcUrl,
    dataDirectory: settings.directory,
    blobstoreDiskLocation: `${settings.directory}/blobs`,
    serviceHandleDomains: [settings.handleDomain],
    jwtSecret: `secret of port ${settings.port}`,
    adminPassword: settings.adminPassword,
    plcRotationKeyK256PrivateKeyHex: settings.rotationKeyHex,
    crawlers: [...(settings.crawlers ?? [])],
    ...settings.more,
  }
  const config = envToCfg(environment)
  // The PDS names itself by this in requestCrawl, without a port unless it is set here.
  config.service.hostname = `localhost:${settings.port}`
  const pds = await PDS.create(config, envToSecrets(environment))
  listenOnLoopback(pds.app)
  await pds.start()
  return pds
}
