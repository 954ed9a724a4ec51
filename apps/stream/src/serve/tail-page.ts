import { hash } from 'node:crypto'
import type { XrpcServer } from '@tributary/xrpc'
import { htmlPage } from './html-page.ts'

/** What it takes to tail a stream in a browser, and an example for who writes such a page. */
const script = `
const list = document.querySelector('ol'), [state, more] = document.querySelectorAll('output')
const { collections, held } = document.forms[0]
collections.value = new URLSearchParams(location.search).get('collections')
const query = new URLSearchParams(collections.value.split(/[\\s,]+/).filter(Boolean).map((name) => ['collections', name]))
const shownMax = 200, waiting = []
let socket, missing = ''
function open() {
  const url = 'xrpc/network.social.stream.subscribeEvents?' + query
  socket = new WebSocket(url)
  socket.onopen = () => (state.textContent = 'live' + missing)
  socket.onmessage = ({ data }) => take(JSON.parse(data))
  socket.onclose = async () => {
    // A page is told why it was refused only when it asks without a WebSocket.
    const refusal = await fetch(url).then((answer) => answer.json()).catch(() => ({ message: 'the stream is away' }))
    if (refusal.error === 'CursorTooOld') missing = ', and some events before are missing', query.delete('cursor')
    else if (refusal.error !== 'UpgradeRequired') state.textContent = refusal.message
    // The same question would be refused again.
    if (refusal.error !== 'InvalidRequest') setTimeout(open, 2000)
  }
}
function take({ payload, message = payload.message ?? payload.name }) {
  if (payload?.seq === undefined) return (state.textContent = message)
  // A cursor begins with the event that it names.
  if (payload.seq <= query.get('cursor')) return
  query.set('cursor', payload.seq)
  waiting.push(payload)
  if (waiting.length > shownMax) waiting.shift()
  show()
}
// Nothing moves while somebody reads: the pointer is over the list, or the box is ticked.
function show() {
  const isHeld = held.checked || list.matches(':hover')
  more.textContent = isHeld && waiting.length > 0 ? waiting.length + ' newer' : ''
  if (isHeld) return
  for (const event of waiting.splice(0)) list.prepend(make('li', '', itemOf(event)))
  while (list.children.length > shownMax) list.lastChild.remove()
}
function itemOf(event) {
  const { time, $type, operation = $type.split('#')[1], collection, did, record = {}, identity = {}, account = {} } = event
  const about = record.title ?? record.name ?? record.displayName ?? identity.handle ?? account.status ?? ''
  const words = [make('time', time.slice(11, 19)), make('b', operation), make('span', collection ?? '')]
  const summary = make('summary', '', ...words, make('i', String(about).slice(0, 100)), make('small', did))
  return make('details', '', summary, make('pre', JSON.stringify(event, undefined, 2)))
}
function make(tag, text, ...children) {
  const element = Object.assign(document.createElement(tag), { textContent: text })
  element.append(...children)
  return element
}
list.onpointerleave = held.onchange = show
open()
`

const page = htmlPage({
  title: 'Events of this stream',
  style: `
[name=collections] { box-sizing: border-box; max-width: 100%; width: 30em }
ol { list-style: none; padding: 0 }
li { border-bottom: 1px solid #8888; padding: 0.4em 0 }
summary { align-items: baseline; cursor: pointer; display: flex; flex-wrap: wrap; gap: 0 1em }
summary :empty { display: none }
pre { font-size: 13px; overflow-wrap: anywhere; white-space: pre-wrap }`,
  body: `<form>
<label>Collections <input name="collections" placeholder="org.impact.*, app.attested.graph.follow"></label>
<button>Tail</button> <output>connecting</output>
<label><input type="checkbox" name="held"> hold</label> <output></output>
</form>
<p>The newest event is on top; a click shows all of one. Leave the field empty for all collections. <a href="coverage">What this stream has</a></p>
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
