/**
 * The rows that a feed reads: entries, endorsements, follows, organizations. Each is a function of the visible records,
 * so settling again what has not changed changes nothing.
 */
import type { EntryKind, IndexConnection, Steps } from '@tributary/index-store'
import { type Did, recordUri } from '@tributary/protocol'
import type { Affected } from './affected.ts'
import { collections, isEndorsementBy, readFollowSubject, type RecordValue } from './record-facts.ts'
import type { StoredRecord } from './records.ts'
import { removalOf, removeInSteps } from './removal.ts'

/** Records of one repository this close in feed time can be a project pair (feed.md 6.1). */
const pairMicros = 60_000_000

/** Definitions kept while awards are settled; each may have a megabyte, and awards of one come in a row. */
const definitionsMax = 8

export interface FeedPolicy {
  /** Attachments with another `contentType` make no entry; empty for all attachments (feed.md 16, D2). */
  updateContentTypes: readonly string[]
}

interface AwardRow {
  issuer: Did
  subject: Did
  cid: string
  feedTime: bigint
  badgeUri: string
  badgeCid: string
}

export class FeedRows {
  readonly #sql
  readonly #policy: FeedPolicy

  constructor({ sqlite }: IndexConnection, policy: FeedPolicy) {
    this.#policy = policy
    this.#sql = {
      putEntry: sqlite.prepare<(string | bigint)[]>(
        `insert into entries (uri, did, kind, feedTime) values (?, ?, ?, ?)
         on conflict (uri) do update set kind = excluded.kind, feedTime = excluded.feedTime
         where kind <> excluded.kind or feedTime <> excluded.feedTime`,
      ),
      removeEntry: sqlite.prepare<[string]>('delete from entries where uri = ?'),
      putEndorsement: sqlite.prepare<string[]>(
        'insert or replace into endorsements (uri, issuer, subject) values (?, ?, ?)',
      ),
      removeEndorsement: sqlite.prepare<[string]>('delete from endorsements where uri = ?'),
      putFollow: sqlite.prepare<string[]>(
        'insert or replace into follows (uri, viewer, subject) values (?, ?, ?)',
      ),
      removeFollow: sqlite.prepare<[string]>('delete from follows where uri = ?'),
      putOrganization: sqlite.prepare<[string]>('insert or ignore into organizations (did) values (?)'),
      removeOrganization: sqlite.prepare<[string]>('delete from organizations where did = ?'),
      clear: [
        removalOf(sqlite, 'entries', 'did'),
        removalOf(sqlite, 'endorsements', 'issuer'),
        removalOf(sqlite, 'follows', 'viewer'),
      ],
      record: sqlite.prepare<[string], StoredRecord>(
        'select uri, did, collection, cid, feedTime from visibleRecords where uri = ?',
      ),
      isProject: sqlite
        .prepare<[string, bigint], bigint>(
          `select 1 from collectionItems join records
             on records.uri = collectionItems.activityUri and records.cid = collectionItems.activityCid
           where collectionItems.collectionUri = ? and abs(records.feedTime - ?) < ${pairMicros} limit 1`,
        )
        .pluck(),
      isInProject: sqlite
        .prepare<[string, string, bigint], bigint>(
          `select 1 from collectionItems join records on records.uri = collectionItems.collectionUri
           where collectionItems.activityUri = ? and collectionItems.activityCid = ?
             and abs(records.feedTime - ?) < ${pairMicros} limit 1`,
        )
        .pluck(),
      award: sqlite.prepare<[string], AwardRow>(
        `select awards.issuer, awards.subject, visibleRecords.cid, visibleRecords.feedTime, badgeUri, badgeCid
         from awards join visibleRecords on visibleRecords.uri = awards.uri where awards.uri = ?`,
      ),
      definition: sqlite
        .prepare<[string, string], string>('select json from visibleRecords where uri = ? and cid = ?')
        .pluck(),
      newestAnswer: sqlite
        .prepare<[string, string, string], bigint>(
          `select responses.rejected from responses join visibleRecords on visibleRecords.uri = responses.uri
           where responses.awardUri = ? and responses.awardCid = ? and responses.did = ?
           order by visibleRecords.feedTime desc, visibleRecords.indexedAt desc, visibleRecords.uri desc limit 1`,
        )
        .pluck(),
    }
  }

  /** Rows that follow from one visible record alone. */
  show(record: StoredRecord, value: RecordValue): void {
    const { uri, did, collection } = record
    switch (collection) {
      case collections.evaluation:
        return this.#enter(record, 'evaluation.create')
      case collections.measurement:
        return this.#enter(record, 'measurement.create')
      case collections.board:
        return this.#enter(record, 'hyperboard.create')
      case collections.attachment:
        return this.#enter(record, this.#isUpdate(value) ? 'update.create' : undefined)
      case collections.follow: {
        const subject = readFollowSubject(value)
        if (subject === undefined) this.#sql.removeFollow.run(uri)
        else this.#sql.putFollow.run(uri, did, subject)
        return
      }
      case collections.organization:
        if (uri === organizationUri(did)) this.#sql.putOrganization.run(did)
    }
  }

  /** Takes away the rows that followed from one record alone. */
  remove({ uri, did, collection }: Pick<StoredRecord, 'uri' | 'did' | 'collection'>): void {
    switch (collection) {
      case collections.follow:
        this.#sql.removeFollow.run(uri)
        return
      case collections.organization:
        if (uri === organizationUri(did)) this.#sql.removeOrganization.run(did)
        return
      default:
        this.#sql.removeEntry.run(uri)
    }
  }

  /** Takes away all rows of an account. Rows of others that rest on it are for `settle`. */
  *clear(did: Did): Steps<void> {
    for (const removal of this.#sql.clear) yield* removeInSteps(removal, [did])
    this.#sql.removeOrganization.run(did)
  }

  /** Classifies anew whatever rests on more than one record. */
  *settle(affected: Affected): Steps<void> {
    for (const uri of affected.activities) {
      const record = this.#sql.record.get(uri)
      const isHidden =
        record === undefined || this.#sql.isInProject.get(uri, record.cid, record.feedTime) !== undefined
      if (isHidden) this.#sql.removeEntry.run(uri)
      else this.#enter(record, 'cert.create')
      yield
    }
    for (const uri of affected.collections()) {
      const record = this.#sql.record.get(uri)
      if (record === undefined) this.#sql.removeEntry.run(uri)
      else if (this.#sql.isProject.get(uri, record.feedTime) === undefined)
        this.#enter(record, 'collection.create')
      else this.#enter(record, 'project.created_with_cert')
      yield
    }
    const definitions = new Map<string, RecordValue | undefined>()
    for (const uri of affected.awards()) {
      this.#settleAward(uri, definitions)
      yield
    }
  }

  #settleAward(uri: string, definitions: Map<string, RecordValue | undefined>): void {
    const award = this.#sql.award.get(uri)
    if (award === undefined || !this.#isValid(uri, award, definitions)) {
      this.#sql.removeEndorsement.run(uri)
      this.#sql.removeEntry.run(uri)
      return
    }
    this.#sql.putEndorsement.run(uri, award.issuer, award.subject)
    this.#enter({ uri, did: award.issuer, feedTime: award.feedTime }, 'endorsement.award')
  }

  /** Rules 3 to 6 of feed.md section 5; 1 and 2 held when the award was stored. */
  #isValid(uri: string, award: AwardRow, definitions: Map<string, RecordValue | undefined>): boolean {
    const key = `${award.badgeUri} ${award.badgeCid}`
    if (!definitions.has(key)) {
      if (definitions.size >= definitionsMax) definitions.clear()
      const json = this.#sql.definition.get(award.badgeUri, award.badgeCid)
      definitions.set(key, json === undefined ? undefined : (JSON.parse(json) as RecordValue)) // stored from an object
    }
    const definition = definitions.get(key)
    if (definition === undefined || !isEndorsementBy(award.issuer, definition)) return false
    return this.#sql.newestAnswer.get(uri, award.cid, award.subject) !== 1n
  }

  #enter(
    { uri, did, feedTime }: { uri: string; did: Did; feedTime: bigint },
    kind: EntryKind | undefined,
  ): void {
    if (kind === undefined) this.#sql.removeEntry.run(uri)
    else this.#sql.putEntry.run(uri, did, kind, feedTime)
  }

  #isUpdate(attachment: RecordValue): boolean {
    const wanted = this.#policy.updateContentTypes
    const contentType = attachment['contentType']
    return wanted.length === 0 || (typeof contentType === 'string' && wanted.includes(contentType))
  }
}

function organizationUri(did: Did): string {
  return recordUri(did, collections.organization, 'self')
}
