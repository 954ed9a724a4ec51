import type { ServiceProcess } from '@tributary/testkit'

export const operatorToken = 'operator-of-a-process'

interface Answer {
  status: number
  body: Record<string, unknown>
}

/** An operator's call. Undefined when the stream has ended before it answered. */
export async function operate(
  { url }: ServiceProcess,
  method: string,
  input?: Record<string, unknown>,
): Promise<Answer | undefined> {
  try {
    const response = await fetch(`${url}/xrpc/network.social.stream.admin.${method}`, {
      method: input ? 'POST' : 'GET',
      headers: { Authorization: `Bearer ${operatorToken}`, 'content-type': 'application/json' },
      ...(input && { body: JSON.stringify(input) }),
    })
    const body = (await response.json()) as Record<string, unknown> // an object, by each lexicon
    return { status: response.status, body }
  } catch {
    return undefined
  }
}
