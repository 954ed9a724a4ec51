/** A page of the stream for a browser. Its parts are HTML: what others may have written goes through `escaped`. */
export function htmlPage({ title, style, body }: { title: string; style: string; body: string }): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.4 sans-serif; margin: 1em auto; max-width: 70em; overflow-wrap: anywhere; padding: 0 1em }
${style}
</style>
</head>
<body>
<h1>${title}</h1>
${body}
</body>
</html>
`
}

/** Text in which nothing is taken for markup. */
export function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
