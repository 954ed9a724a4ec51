import { setTimeout as pause } from 'node:timers/promises'
import type { AccountHome, EventBody, ScriptedAccount, ScriptedHost } from '@tributary/testkit'

/**
 * A scripted host whose events reach its readers late, as over a slow line: each waits for as long as is drawn, and for
 * those before it. What the host answers is never late.
 */
export class LateHome implements AccountHome {
  readonly host: ScriptedHost
  readonly #delayMs: () => number
  #sent: Promise<void> = Promise.resolve()

  constructor(host: ScriptedHost, delayMs: () => number) {
    this.host = host
    this.#delayMs = delayMs
  }

  get plcUrl(): string {
    return this.host.plcUrl
  }

  get url(): string {
    return this.host.url
  }

  get accounts(): Map<string, ScriptedAccount> {
    return this.host.accounts
  }

  /** @returns 0, because the event has no position yet. */
  emit(type: string, body: EventBody): number {
    const delayMs = this.#delayMs()
    this.#sent = this.#sent.then(async () => {
      await pause(delayMs)
      this.host.emit(type, body)
    })
    return 0
  }

  /** Resolves when everything so far was sent. */
  async sent(): Promise<void> {
    await this.#sent
  }
}
