import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineSettings } from './define.ts'
import { settingsHelp } from './help.ts'
import { flag, integer, text } from './setting.ts'

test('help shows flag, variable, form, default and meaning of every setting', () => {
  const spec = defineSettings('TRIBUTARY_FEED', {
    tokenAgeSecondsMax: integer({ default: 300, min: 1, max: 3600, doc: 'How old a token may be.' }),
    serviceDid: text({ required: true, doc: 'The DID of this service.', form: 'a DID' }),
    verbose: flag({ doc: 'Says more.' }),
  })
  const help = settingsHelp(spec)
  const age = `  --token-age-seconds-max <value>
      How old a token may be.
      An integer from 1 to 3600. Default: 300. Variable: TRIBUTARY_FEED_TOKEN_AGE_SECONDS_MAX.
`
  assert.ok(help.includes(age), help)
  assert.match(help, /--service-did <value>\n.*\n +A DID\. Required\./)
  assert.match(help, /--verbose\n/)
  assert.match(help, /--log-level <value>[^]*TRIBUTARY_FEED_LOG_LEVEL, else TRIBUTARY_LOG_LEVEL\./)
  assert.match(help, /--settings <file>/)
})
