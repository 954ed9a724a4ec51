/** What holds memory for somebody of a network (`siteOf`). */
export interface Holder {
  readonly network: string
  readonly bytes: number
}

/**
 * Ends holders until the others hold at most `bytesMax`: each time the one that holds most, of the network that holds
 * most. Looks at every holder a few times only, because thousands may have to go.
 */
export function endLargest<H extends Holder>(
  holders: Iterable<H>,
  bytesMax: number,
  end: (holder: H) => void,
): void {
  const networks = new Map<string, { bytes: number; holders: { holder: H; bytes: number }[] }>()
  let held = 0
  for (const holder of holders) {
    const { network: name, bytes } = holder
    if (bytes === 0) continue
    held += bytes
    const network = networks.get(name) ?? { bytes: 0, holders: [] }
    networks.set(name, network)
    network.bytes += bytes
    network.holders.push({ holder, bytes })
  }
  if (held <= bytesMax) return
  // The largest comes last.
  for (const network of networks.values()) network.holders.sort((a, b) => a.bytes - b.bytes)
  while (held > bytesMax) {
    let most
    for (const network of networks.values()) if (network.bytes > (most?.bytes ?? 0)) most = network
    const largest = most?.holders.pop()
    if (!most || !largest) return
    held -= largest.bytes
    most.bytes -= largest.bytes
    end(largest.holder)
  }
}
