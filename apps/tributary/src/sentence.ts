/** A summary as a sentence: `list sources` is `List sources.` */
export function sentence(summary: string): string {
  return `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`
}
