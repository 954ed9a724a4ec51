export async function runLive(..._args: unknown[]): Promise<number> {
  return 0
}
