/** DIDs in a PLC directory. The imports of its library are late because most tests register no DID. */
import type { Keypair } from '@atproto/crypto'
import type { Operation, UnsignedOperation } from '@did-plc/lib'

/** What a DID's document says. */
export type PlcData = Pick<UnsignedOperation, 'alsoKnownAs' | 'verificationMethods' | 'services'>

/** The service entry that names the PDS of an account. */
export function pdsService(endpoint: string): PlcData['services'] {
  return { atproto_pds: { type: 'AtprotoPersonalDataServer', endpoint } }
}

/** The signed first operation of a new DID, and the DID that follows from it. Sends nothing. */
export async function genesisOperation(
  rotationKey: Keypair,
  data: PlcData,
): Promise<{ did: string; operation: Operation }> {
  const { didForCreateOp, signOperation } = await import('@did-plc/lib')
  const operation = await signOperation(
    { type: 'plc_operation', prev: null, rotationKeys: [rotationKey.did()], ...data },
    rotationKey,
  )
  return { did: await didForCreateOp(operation), operation }
}

/** Registers a new DID in a PLC directory. `rotationKey` alone may change it later. */
export async function createDid(plcUrl: string, rotationKey: Keypair, data: PlcData): Promise<string> {
  const { did, operation } = await genesisOperation(rotationKey, data)
  const { Client } = await import('@did-plc/lib')
  await new Client(plcUrl).sendOperation(did, operation)
  return did
}

/** Changes what the document of a DID says, signed with its rotation key. */
export async function updateDid(
  plcUrl: string,
  did: string,
  rotationKey: Keypair,
  changes: Partial<PlcData>,
): Promise<void> {
  const { Client, createUpdateOp } = await import('@did-plc/lib')
  const client = new Client(plcUrl)
  const last = await client.getLastOp(did)
  if (last.type === 'plc_tombstone') throw new Error(`${did} is tombstoned`)
  const operation = await createUpdateOp(last, rotationKey, (data) => ({ ...data, ...changes }))
  await client.sendOperation(did, operation)
}

/** Ends a DID: its document is not found afterwards. */
export async function tombstoneDid(plcUrl: string, did: string, rotationKey: Keypair): Promise<void> {
  const { Client } = await import('@did-plc/lib')
  await new Client(plcUrl).tombstone(did, rotationKey)
}
