/**
 * What an operator decides before a program starts: declared once per program, read once, frozen.
 *
 * Every problem is reported together, with the name, the value and the expected form. A TRIBUTARY_ variable nobody
 * knows is a problem. This package is the only one that touches process.env. What an operator changes while a program
 * runs is policy and is stored elsewhere.
 */
export { choice, flag, integer, list, path, secretFile, text, url, type Setting } from './setting.ts'
export {
  defineSettings,
  defineSilentSettings,
  flagName,
  knownPrefixes,
  settingsFileVariable,
  sharedNames,
  toEnvironment,
  variableName,
  type Prefix,
  type SettingsOf,
  type SettingsSpec,
} from './define.ts'
export { givenSettings, readSettings, type SettingsSources } from './read.ts'
export { SettingsError, type SettingsProblem } from './settings-error.ts'
export { settingsHelp } from './help.ts'
export { settingsJsonSchema } from './json-schema.ts'
export {
  givenToProgram,
  readProgramSettings,
  readSettingsOrExit,
  runService,
  type RunningService,
  type ServiceContext,
} from './run-service.ts'
export { collectGarbageSooner } from './collect-garbage-sooner.ts'
export { closestName } from './closest-name.ts'
export { childEnvironment } from './environment.ts'
export { programVersion } from './program-version.ts'
export { makeDirectory } from './make-directory.ts'
