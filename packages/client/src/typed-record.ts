/** Records with the type that a lexicon gives them. */
import type { ClientEvent } from './batch.ts'
import { StreamError } from './errors.ts'

/**
 * A schema of a record, as generated from a lexicon. All libraries that follow Standard Schema have it, such as
 * `@atcute/lexicons` and `@atproto/lex`. It is given the record as atproto JSON.
 */
export interface RecordSchema<R> {
  readonly '~standard': {
    readonly validate: (value: unknown) => SchemaResult<R> | Promise<SchemaResult<R>>
  }
}

type SchemaResult<R> =
  | { readonly value: R; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string }[] }

/** A record does not fit the lexicon. Another attempt does not help. */
export class InvalidRecordError extends Error {
  override readonly name = 'InvalidRecordError'
}

/**
 * The record of a commit, decoded, held against a lexicon and with its type. Undefined for a delete, and for what is no commit.
 * @throws InvalidRecordError when it does not fit; StreamError `MalformedEvent` when it cannot be decoded, `InvalidRequest` for
 *   a schema that answers with a promise, which is for the handlers of `runIndexer`.
 */
export function readRecord<R>(event: ClientEvent, schema: RecordSchema<R>): R | undefined {
  const record = event.kind === 'commit' ? event.record : undefined
  if (record === undefined) return undefined
  const result = schema['~standard'].validate(record)
  if (!('then' in result)) return valueOf(result)
  // It is of no use, and must not end the program.
  result.catch(() => undefined)
  throw new StreamError(
    'InvalidRequest',
    'the schema answers with a promise: take it for a handler of runIndexer',
  )
}

/** As `readRecord`, also with a schema that answers with a promise. */
export async function validRecord<R>(record: unknown, schema: RecordSchema<R>): Promise<R> {
  return valueOf(await schema['~standard'].validate(record))
}

function valueOf<R>(result: SchemaResult<R>): R {
  if (result.issues === undefined) return result.value
  throw new InvalidRecordError(result.issues.map(({ message }) => message).join('; '))
}
