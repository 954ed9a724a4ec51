import { eventually } from '@tributary/testkit'
import type { TestRelay } from './start-test-relay.ts'
import { operatorToken } from './start-test-relay.ts'

export interface Answer {
  status: number
  body: Record<string, unknown>
}

/** Calls one operator method; an input makes it a POST. */
export async function operate(
  relay: Pick<TestRelay, 'url'>,
  method: string,
  {
    input,
    query = {},
    token = operatorToken,
  }: { input?: unknown; query?: Record<string, string>; token?: string } = {},
): Promise<Answer> {
  const parameters = new URLSearchParams(query).toString()
  const url = `${relay.url}/xrpc/network.social.stream.relay.admin.${method}${parameters && `?${parameters}`}`
  const response = await fetch(url, {
    ...(input !== undefined && { method: 'POST', body: JSON.stringify(input) }),
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> } // XRPC answers are objects
}

/** What the operator sees of one source. */
export async function hostOf(
  relay: Pick<TestRelay, 'url'>,
  hostname: string,
): Promise<Record<string, unknown>> {
  const { body } = await operate(relay, 'listHosts', { query: { hostname } })
  return (body['hosts'] as Record<string, unknown>[])[0] ?? {} // as its lexicon says
}

/** Waits until a source is as wanted. */
export async function untilHost(
  relay: Pick<TestRelay, 'url'>,
  hostname: string,
  isWanted: (host: Record<string, unknown>) => boolean,
): Promise<Record<string, unknown>> {
  let host: Record<string, unknown> = {}
  await eventually(
    async () => isWanted((host = await hostOf(relay, hostname))),
    () => host,
  )
  return host
}
