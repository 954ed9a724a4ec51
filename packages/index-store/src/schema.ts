/**
 * The tables of the index database, as apps/index writes them and apps/feed reads them.
 *
 * Three layers, each a function of the one above it:
 * - what the stream and the labelers said: `records`, `accounts`, `labels`;
 * - what single records state, parsed once: `collectionItems`, `awards`, `responses`, `views`;
 * - what a feed reads: `entries`, `endorsements`, `follows`, `organizations`. These hold only what counts now: rows of
 *   hidden accounts are taken out and come back when the account does.
 *
 * Every INTEGER column is a bigint here. Times are microseconds since 1970 in UTC; they may lie before 1970 and as far
 * ahead as the end of the year 9999, which a double cannot hold exactly. Text compares by its UTF-8 bytes.
 */
import type { Did, EntryKind, QualityLabel } from '@tributary/protocol'

/** A current record, also of a hidden account. A reader wants `visibleRecords` unless it follows an entry. */
export interface RecordsTable {
  uri: string
  did: Did
  collection: string
  cid: string
  /** The record as atproto JSON text. It need not pass its lexicon. */
  json: string
  /** When this content was first received. */
  indexedAt: bigint
  /** The record's own `createdAt`: the first valid one it had, whatever later edits say. */
  createdAt: bigint | null
  /** `createdAt`, else `indexedAt`. */
  feedTime: bigint
}

/** One row per thing a feed can show, classified. `uri` is the record's address; order is feedTime desc, uri desc. */
export interface EntriesTable {
  uri: string
  did: Did
  kind: EntryKind
  feedTime: bigint
}

/**
 * What a feed shows of a record, as JSON in the form of the feed's lexicon: the content of an entry, or the name and
 * avatar of a profile. Records that must not be shown have no row. Records of hidden accounts keep theirs.
 */
export interface ViewsTable {
  uri: string
  did: Did
  view: string
}

/** One row per valid endorsement. `uri` is the award's address. */
export interface EndorsementsTable {
  uri: string
  issuer: Did
  subject: Did
}

/** One row per follow record with a valid subject; a viewer may follow one subject by several records. */
export interface FollowsTable {
  uri: string
  viewer: Did
  subject: Did
}

/** The accounts that have an organization record under the key `self`. */
export interface OrganizationsTable {
  did: Did
}

/** The handle that the DID document of an account declares, and whose name points back to the account. */
export interface HandlesTable {
  did: Did
  handle: string
}

/**
 * An account that wrote a record of ours, or one that was inactive when the stream last spoke of it. `status` is the last
 * word of the stream: 'active', 'deactivated', 'takendown', 'suspended', 'deleted' or what else a host says. `hostStatus` is
 * what the account's own host answered since then, null until asked.
 */
export interface AccountsTable {
  did: Did
  status: string
  /** The event that said so; 0 before the first. */
  statusSeq: bigint
  hostStatus: string | null
  /** 1 when none of its records count. */
  hidden: bigint
  /** When its host was last asked; 0 for never. */
  checkedAt: bigint
  /** 1 when it wrote a record of ours since it was last deleted. Only then are its handle and its host of interest. */
  isAuthor: bigint
}

/**
 * Every label and negation that a labeler ever gave on the bare DID of an account (`uri` = `did`, no `cid`) or on its
 * organization record. Rows with an unreadable time or a value outside `qualityLabels` are not stored.
 */
export interface LabelsTable {
  src: Did
  /** The account that is labelled, whichever form `uri` has. */
  did: Did
  uri: string
  cid: string | null
  val: QualityLabel
  /** 1 for a negation. */
  neg: bigint
  cts: bigint
  exp: bigint | null
}

/** Where a consumer of the index stands. `source` is `stream:<url>` or `labels:<labeler DID>`. */
export interface CursorsTable {
  source: string
  cursor: bigint
}

/** The newest events of the stream that are in the index. The index recognizes the stream by them. */
export interface FoldedEventsTable {
  seq: bigint
  fingerprint: string
}

/** The activities of its own repository that a collection lists. */
export interface CollectionItemsTable {
  collectionUri: string
  activityUri: string
  activityCid: string
  /** Of the collection record. */
  feedTime: bigint
}

/** Awards to an account other than their issuer's, before the definition and the responses are looked at. */
export interface AwardsTable {
  uri: string
  issuer: Did
  subject: Did
  badgeUri: string
  badgeCid: string
}

/** Responses with a usable answer. Only those in the award's subject's own repository count. */
export interface ResponsesTable {
  uri: string
  did: Did
  awardUri: string
  awardCid: string
  /** 1 when the answer is `rejected`. */
  rejected: bigint
  /** Times of the record: the newest answer counts. */
  feedTime: bigint
  indexedAt: bigint
}

/**
 * Records that a sync marker took away and that the rows after it may bring back. A record that comes back takes up its old
 * place by these times. There is no content here.
 */
export interface SupersededTable {
  uri: string
  did: Did
  cid: string
  indexedAt: bigint
  createdAt: bigint | null
  /** Time of the marker. */
  supersededAt: bigint
}

/** Accounts whose handle must be looked up. `seq` tells a request that came in meanwhile from the one being worked on. */
export interface HandleRequestsTable {
  did: Did
  seq: bigint
  attempts: bigint
  /** Not before this time; 0 for at once. */
  dueAt: bigint
}

/** The settings that classified rows depend on, as they were when the rows were made; and what an event has left to do. */
export interface PoliciesTable {
  name: string
  value: string
}

/** Authors of whom so many rows are to be made again that it is done beside the events. */
export interface RemakesTable {
  did: Did
  /** The newest event that caused it. */
  seq: bigint
  /** The smallest has waited longest. */
  place: bigint
  /** Grows whenever something is added. */
  version: bigint
  /** The version in which all rows of the account were added; 0 when they were not. */
  accountVersion: bigint
  /** The rows that are shown of the account are still to be removed (1), which comes before all else. */
  isHiding: bigint
  /** All that rests on its badges (1). */
  isDefiner: bigint
  /** All its collections (1). */
  isLister: bigint
  /** Contents of its records of which what rests on them is to be settled, as JSON. */
  contents: string
  failures: bigint
}

export interface IndexDatabase {
  records: RecordsTable
  /** View: the records whose account is not hidden. */
  visibleRecords: RecordsTable
  entries: EntriesTable
  views: ViewsTable
  endorsements: EndorsementsTable
  follows: FollowsTable
  organizations: OrganizationsTable
  handles: HandlesTable
  accounts: AccountsTable
  labels: LabelsTable
  cursors: CursorsTable
  foldedEvents: FoldedEventsTable
  collectionItems: CollectionItemsTable
  awards: AwardsTable
  responses: ResponsesTable
  superseded: SupersededTable
  handleRequests: HandleRequestsTable
  policies: PoliciesTable
  remakes: RemakesTable
}
