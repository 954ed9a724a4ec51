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
    databaseUrl: text({ doc: 'A database.', form: 'postgres://host/database' }),
  })
  const help = settingsHelp(spec, 120)
  const age = `  --token-age-seconds-max <value>
      How old a token may be.
      An integer from 1 to 3600. Default: 300. Variable: TRIBUTARY_FEED_TOKEN_AGE_SECONDS_MAX.
`
  assert.ok(help.includes(age), help)
  assert.match(help, /--service-did <value>\n.*\n +A DID\. Required\./)
  assert.match(help, /--verbose\n/)
  assert.match(help, / postgres:\/\/host\/database\. None by default\./, 'as it is typed')
  assert.match(help, /--log-level <value>[^]*TRIBUTARY_FEED_LOG_LEVEL, else\s+TRIBUTARY_LOG_LEVEL\./)
  assert.match(help, /--settings <file>/)
})

test('the lines of help fit the terminal, but for words that are longer', () => {
  const long = 'x'.repeat(70)
  const spec = defineSettings('TRIBUTARY_FEED', {
    serviceDid: text({ required: true, doc: `The DID of this service, which ${long} demands of all.` }),
  })
  for (const width of [40, 80, 200]) {
    const lines = settingsHelp(spec, width).split('\n')
    const tooLong = lines.filter((line) => line.length > width && line.trim().includes(' '))
    // The first line is a title.
    assert.deepEqual(width < 62 ? tooLong.slice(1) : tooLong, [], `${width} columns`)
  }
  const words = (width: number): string => settingsHelp(spec, width).replaceAll(/\s+/g, ' ')
  assert.equal(words(40), words(200))
  assert.ok(words(40).includes(`which ${long} demands`))
})
