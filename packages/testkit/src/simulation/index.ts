/** What simulators are made of: virtual time, a disk, the world's moods, and consumers that read through a stream in place of a socket. */
export { runCampaign, type Simulator } from './campaign.ts'
export { Conditions } from './conditions.ts'
export { ConsumerSocket, type ConsumerSocketOptions, type Pace } from './consumer-socket.ts'
export { runSimulation, type Simulation } from './run-simulation.ts'
export { SimulatedDisk } from './simulated-disk.ts'
export type { AnyScript, Play, Result } from './script.ts'
export { ProcessClock, VirtualTime } from './virtual-time.ts'
export { clientFrame, firstFrame, opcodeOf, opcodes, payloadOf } from './websocket-frames.ts'
