// Loaded before a campaign: an option that it does not know ends it with a sentence instead of a stack trace.
process.on('uncaughtException', (error) => {
  const isOfArguments = 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')
  console.error(isOfArguments ? `campaign: ${error.message} (--help says what there is)` : error)
  process.exit(isOfArguments ? 64 : 1)
})
