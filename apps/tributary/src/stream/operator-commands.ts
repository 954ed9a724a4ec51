/** `tributary stream collections|audit`: the operator API of a stream, typed. */
import type { Command } from 'commander'
import { change, group, list, look, readCount, type End } from '../operator/operator-command.ts'
import type { Json } from '../operator/operator-client.ts'

/** Adds them to the command of the stream. @param end called with the exit code. */
export function addStreamOperatorCommands(stream: Command, end: End): void {
  addCollectionCommands(group(stream, 'collections', 'the collections whose records are kept'), end)
  const audit = ['at', 'actor', 'operation', 'subject', 'before', 'after']
  list(stream, 'audit', 'list what was changed and by whom, newest first', 'listAudit', 'audit', audit, end)
}

function addCollectionCommands(collections: Command, end: End): void {
  look(collections, 'list', 'list watched collections', end, async (client, print) => {
    const { collections: rows } = await client.query('listCollections')
    print(rows as Json[], ['collection', 'addedAt', 'addedRevision', 'actor']) // as its lexicon says
  })
  const revision = ['--expected-revision <revision>', 'the revision that was looked at'] as const
  const add = 'watch one more collection'
  change(collections, 'add <collection>', add, 'addCollection', end).option(...revision, readCount)
  const remove = 'end the watching of a collection; what is archived of it stays'
  change(collections, 'remove <collection>', remove, 'removeCollection', end).option(...revision, readCount)
}
