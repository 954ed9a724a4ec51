import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'

type QuestionType = 'A' | 'AAAA' | 'TXT'

const types: Record<number, QuestionType> = { 1: 'A', 16: 'TXT', 28: 'AAAA' }
const numbers: Record<QuestionType, number> = { A: 1, TXT: 16, AAAA: 28 }
const codes = { failure: 2, 'no-such-name': 3 }

/** What a name server says: addresses or texts, that it cannot tell, that there is no such name, or nothing at all. */
export type NameAnswer = readonly string[] | 'failure' | 'no-such-name' | 'silence'

/** A name server on loopback whose answers a test decides. */
export class NameServer implements AsyncDisposable {
  readonly #socket: Socket = createSocket('udp4')
  readonly #silent: [Buffer, RemoteInfo][] = []
  /** Names that were asked for, once for each question. */
  readonly questions: string[] = []
  handler: (name: string, type: QuestionType) => NameAnswer = () => 'no-such-name'

  static async start(handler?: NameServer['handler']): Promise<NameServer> {
    const server = new NameServer()
    if (handler) server.handler = handler
    server.#socket.on('message', (query, from) => server.#answer(query, from))
    await new Promise<void>((resolve) => server.#socket.bind(0, '127.0.0.1', resolve))
    return server
  }

  /** For `nameServers`. */
  get addresses(): string[] {
    return [`127.0.0.1:${this.#socket.address().port}`]
  }

  #answer(query: Buffer, from: RemoteInfo): void {
    const { name, type } = readQuestion(query)
    this.questions.push(name)
    const answer = this.handler(name, type)
    if (answer === 'silence') this.#silent.push([query, from])
    else this.#socket.send(encodeAnswer(query, answer), from.port, from.address)
  }

  /** Says of all that it was silent about, and of whatever is asked from now on, that it is not there. */
  endSilence(): void {
    this.handler = () => 'no-such-name'
    for (const [query, from] of this.#silent.splice(0)) this.#answer(query, from)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((resolve) => this.#socket.close(resolve))
  }
}

function readQuestion(query: Buffer): { name: string; type: QuestionType; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const type = types[query.readUInt16BE(at + 1)]
  if (!type) throw new Error('only addresses and texts can be asked for')
  return { name: labels.join('.').toLowerCase(), type, end: at + 5 }
}

function encodeAnswer(query: Buffer, answer: Exclude<NameAnswer, 'silence'>): Buffer {
  const { type, end } = readQuestion(query)
  const addresses = typeof answer === 'string' ? [] : answer
  const head = Buffer.alloc(12)
  query.copy(head, 0, 0, 2)
  head.writeUInt16BE(0x8180 + (typeof answer === 'string' ? codes[answer] : 0), 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(addresses.length, 6)
  const records = addresses.map((address) => {
    const data = encodeData(type, address)
    const record = Buffer.alloc(12)
    record.writeUInt16BE(0xc00c, 0) // the name that was asked for
    record.writeUInt16BE(numbers[type], 2)
    record.writeUInt16BE(1, 4)
    record.writeUInt32BE(60, 6)
    record.writeUInt16BE(data.length, 10)
    return Buffer.concat([record, data])
  })
  return Buffer.concat([head, query.subarray(12, end), ...records])
}

function encodeData(type: QuestionType, text: string): Buffer {
  if (type === 'A') return Buffer.from(text.split('.').map(Number))
  if (type === 'AAAA') return encodeIpv6(text)
  return Buffer.concat([Buffer.from([text.length]), Buffer.from(text)])
}

function encodeIpv6(address: string): Buffer {
  const [before = [], after = []] = address.split('::').map((part) => (part ? part.split(':') : []))
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
  return Buffer.from([...before, ...zeros, ...after].map((group) => group.padStart(4, '0')).join(''), 'hex')
}
