import { createResolver } from '@tributary/identity'
import { HostRepos } from './host-repos.ts'

/** Where accounts and their hosts are found. */
export interface NetworkOptions {
  /** The PLC directory. */
  plc: string
  /** Hosts that may be on private addresses, with commas between them. */
  allowedPrivateHosts?: string
  /** Seconds for which a difference may last that an event on its way explains. Default 10. */
  behind?: number
}

const behindSecondsDefault = 10

/** What a check of repositories needs of the network. */
export function networkOf(
  { plc: plcUrl, allowedPrivateHosts = '', behind = behindSecondsDefault }: NetworkOptions,
  signal: AbortSignal,
): { hosts: HostRepos; waitMs: number } {
  const where = { plcUrl, allowedPrivateHosts: allowedPrivateHosts.split(',').filter((host) => host !== '') }
  const hosts = new HostRepos({ ...where, resolver: createResolver(where), signal })
  return { hosts, waitMs: behind * 1000 }
}
