/** An answer is given again for so long: anybody may ask, and a look takes a place of those for pages. */
const answerMs = 1000

/**
 * Looks whether the service is ready, once for all who ask at the same time.
 * @param look does not reject
 * @param now a clock in milliseconds
 */
export function createReadiness(look: () => Promise<boolean>, now: () => number): () => Promise<boolean> {
  let answer: Promise<boolean> | undefined
  let isUnderWay = false
  let lookedAtMs = 0
  const lookAgain = async (): Promise<boolean> => {
    isUnderWay = true
    try {
      return await look()
    } finally {
      isUnderWay = false
      lookedAtMs = now()
    }
  }
  return async () => {
    // By how far the clock is from then, because it may go back.
    const isYoung = isUnderWay || Math.abs(now() - lookedAtMs) < answerMs
    if (answer === undefined || !isYoung) answer = lookAgain()
    return await answer
  }
}
