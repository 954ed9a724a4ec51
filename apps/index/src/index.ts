export { startIndex } from './service.ts'
export { indexSettings } from './settings.ts'
export type { IndexSettings } from './settings.ts'
