import { hash } from 'node:crypto'
import type { XrpcServer } from '@tributary/xrpc'
import { htmlPage } from './html-page.ts'

/** What it takes to tail a stream in a browser, and an example for who writes such a page. */
const script = `
const list = document.querySelector('ol'), state = document.querySelector('output'), { collections } = document.forms[0]
collections.value = new URLSearchParams(location.search).get('collections')
const query = new URLSearchParams(collections.value.split(/[\\s,]+/).filter(Boolean).map((name) => ['collections', name]))
let socket, missing = ''
function open() {
  const url = 'xrpc/network.social.stream.subscribeEvents?' + query
  socket = new WebSocket(url)
  socket.onopen = () => (state.textContent = 'live' + missing)
  socket.onmessage = ({ data }) => show(JSON.parse(data))
  socket.onclose = async () => {
    // A page is told why it was refused only when it asks without a WebSocket.
    const refusal = await fetch(url).then((answer) => answer.json()).catch(() => ({ message: 'the stream is away' }))
    if (refusal.error === 'CursorTooOld') missing = ', and some events before are missing', query.delete('cursor')
    else if (refusal.error !== 'UpgradeRequired') state.textContent = refusal.message
    setTimeout(open, 2000)
  }
}
function show({ payload, message = payload.message ?? payload.name }) {
  if (payload?.seq === undefined) return (state.textContent = message)
  // A cursor begins with the event that it names.
  if (payload.seq <= query.get('cursor')) return
  query.set('cursor', payload.seq)
  list.prepend(Object.assign(document.createElement('li'), { textContent: JSON.stringify(payload) }))
  list.children[200]?.remove()
}
open()
`

const page = htmlPage({
  title: 'Events of this stream',
  style: `
input { box-sizing: border-box; max-width: 100%; width: 30em }
ol { font: 13px/1.4 monospace; list-style: none; padding: 0 }
li { border-bottom: 1px solid #8888; padding: 0.4em 0 }`,
  body: `<form>
<label>Collections <input name="collections" placeholder="org.impact.*, app.attested.graph.follow"></label>
<button>Tail</button> <output>connecting</output>
</form>
<p>The newest event is on top. Leave the field empty for all collections. <a href="coverage">What this stream has</a></p>
<ol></ol>
<script>${script}</script>`,
})

/** The page runs its own script alone, and speaks to this stream alone. What events hold is shown as text. */
const policy = [
  "default-src 'none'",
  `script-src 'sha256-${hash('sha256', script, 'base64')}'`,
  "style-src 'unsafe-inline'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** Adds `/tail`: events as they happen, for a browser. */
export function serveTailPage(server: XrpcServer): void {
  server.route('GET', '/tail', ({ reply }) =>
    reply
      .header('content-security-policy', policy)
      .header('cache-control', 'no-store')
      .type('text/html; charset=utf-8')
      .send(page),
  )
}
