/** The time, and calls at later times. It comes in through constructors, so that a test lets hours pass at once. */
export { systemClock, type RepeatingClock as Clock } from '@tributary/lanes'
