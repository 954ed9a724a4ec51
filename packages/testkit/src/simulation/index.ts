/** What simulators are made of: virtual time, and consumers that read a server through a stream in place of a socket. */
export { runCampaign, type Simulator } from './campaign.ts'
export { ConsumerSocket, type ConsumerSocketOptions, type Pace } from './consumer-socket.ts'
export type { AnyScript, Play, Result } from './script.ts'
export { ProcessClock, VirtualTime } from './virtual-time.ts'
export { clientFrame, firstFrame, opcodeOf, opcodes, payloadOf } from './websocket-frames.ts'
