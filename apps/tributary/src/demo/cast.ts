import type { Account, Network } from '@tributary/testkit'

/** The people and organizations of the demo, spread over three PDSs. */
export interface Cast {
  /** Whose feed is shown. */
  viewer: Account
  alice: Account
  bob: Account
  /** Not followed: reached through Eve's endorsement. */
  carol: Account
  /** Was followed once. */
  dave: Account
  /** The evaluator that the viewer trusts. */
  eve: Account
  /** An organization that the labeler rates `high-quality`. */
  greenbelt: Account
  /** An organization that it rates `likely-test`. */
  quickwin: Account
}

const homes: Record<keyof Cast, number> = {
  viewer: 0,
  alice: 0,
  bob: 1,
  carol: 2,
  dave: 1,
  eve: 1,
  greenbelt: 2,
  quickwin: 0,
}

/** Creates the accounts, several at a time, each on its PDS, and labels the organizations. */
export async function createCast(network: Network): Promise<Cast> {
  const created = await Promise.all(
    Object.entries(homes).map(
      async ([name, pds]) => [name, await network.createAccount({ pds, name })] as const,
    ),
  )
  const cast = Object.fromEntries(created) as unknown as Cast // one account for each name of homes
  await network.labeler.label(cast.greenbelt.did, 'high-quality')
  await network.labeler.label(cast.quickwin.did, 'likely-test')
  return cast
}
