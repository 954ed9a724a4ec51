export { startRelay, type RelayService } from './service.ts'
export { relaySettings, type RelaySettings } from './settings.ts'
