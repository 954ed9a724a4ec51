/** The path of a request line, as it was sent: not decoded. */
export function pathOf(url = '/'): string {
  return url.split('?', 1)[0] ?? url
}

/** What follows the question mark of a request line. */
export function queryStringOf(url = '/'): string {
  const start = url.indexOf('?')
  return start === -1 ? '' : url.slice(start + 1)
}
