/** How many files and sockets this process may have open. Infinity where the system sets no limit, or does not say. */
export function openFilesMax(): number {
  const report = process.report as NodeJS.ProcessReport & { excludeNetwork: boolean } // the types lack it
  const { excludeNetwork } = report
  report.excludeNetwork = true // It would look up the names of all peers.
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft: unknown } } } // as Node documents it
  report.excludeNetwork = excludeNetwork
  const soft = userLimits?.open_files?.soft
  return typeof soft === 'number' ? soft : Infinity
}
