const digits = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** As DID documents write keys, behind a `z`. For bytes that do not begin with 0. */
export function base58(bytes: Uint8Array): string {
  let text = ''
  for (let rest = BigInt(`0x${Buffer.from(bytes).toString('hex')}`); rest > 0n; rest /= 58n)
    text = `${digits[Number(rest % 58n)]}${text}`
  return text
}
