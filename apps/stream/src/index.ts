export { startStream, type StreamService } from './service.ts'
export { streamSettings, type StreamSettings } from './settings.ts'
