import type { Did } from '@tributary/protocol'

/** A question to the host of an account that has no answer yet. It is over when it is disposed of. */
export interface OpenQuestion extends Disposable {
  /** An event has said how the account is since the host was asked, so that the answer may be older. */
  readonly isOvertaken: boolean
}

/**
 * Questions how accounts are. What is known of an account may be the same when the answer comes, and all the same two
 * events may have come meanwhile: that it is not active, and that it is again.
 */
export class OpenQuestions {
  readonly #open = new Set<{ did: Did; isOvertaken: boolean }>()

  begin(did: Did): OpenQuestion {
    const question = { did, isOvertaken: false, [Symbol.dispose]: () => void this.#open.delete(question) }
    this.#open.add(question)
    return question
  }

  /** An event says how an account is. */
  overtake(did: Did): void {
    for (const question of this.#open) question.isOvertaken ||= question.did === did
  }
}
