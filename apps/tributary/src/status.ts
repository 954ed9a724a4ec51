import { readRunNote } from './up/data-directory.ts'

const answerTimeoutMs = 3000

/** Prints the state of every service of the `up` that runs on a data directory. Returns 0 when all are ready, else 1. */
export async function printStatus(dataDirectory: string): Promise<number> {
  const note = readRunNote(dataDirectory)
  if (note === undefined) {
    process.stdout.write(`nothing runs on ${dataDirectory}: start it with tributary up\n`)
    return 1
  }
  const answers = await Promise.all(note.services.map(({ url }) => askReady(url)))
  note.services.forEach(({ name, url }, i) => {
    process.stdout.write(`${name.padEnd(8)} ${answers[i]?.text.padEnd(10)} ${url}\n`)
  })
  return answers.every(({ isReady }) => isReady) ? 0 : 1
}

async function askReady(url: string): Promise<{ isReady: boolean; text: string }> {
  try {
    const response = await fetch(`${url}/ready`, { signal: AbortSignal.timeout(answerTimeoutMs) })
    await response.body?.cancel()
    return response.ok ? { isReady: true, text: 'ready' } : { isReady: false, text: 'not ready' }
  } catch {
    return { isReady: false, text: 'no answer' }
  }
}
