/** The services are killed at random moments, in the middle of whatever else is played. */
import { pause, type Stage, type Strategy } from '../stage.ts'

export const killing: Readonly<Record<string, Strategy>> = {
  'kill-relay': (stage) => killAgain(stage, 'relay'),
  'kill-stream': (stage) => killAgain(stage, 'stream'),
}

async function killAgain(stage: Stage, kill: 'relay' | 'stream'): Promise<void> {
  while (!stage.signal.aborted) {
    await pause(stage, 500 + stage.random.below(4000))
    await stage.wish({ kill })
    stage.count('kills')
    await pause(stage, 3000)
  }
}
