/**
 * What a server does to learn that a client is gone, so that the lock of a machine that died does not outlive it by the two
 * hours after which the server's system asks by itself. Any role may set this for its own session. It is set by statements,
 * because poolers refuse a connection that asks for it.
 */
import pg from 'pg'
import { onPostgres } from './storage-fault.ts'

/** A client that says nothing for a minute in all, or does not confirm what it was sent for so long, is gone. */
const askSilent = `select set_config(name, value, false) from (values
  ('tcp_keepalives_idle', '20'), ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count', '4'),
  ('tcp_user_timeout', '60000')) as settings (name, value)`
/** Ends a statement whose client is gone. A statement that waits for a lock would hold ours until then. */
const askMeanwhile = `set client_connection_check_interval = '5s'`

/** Has the server end the session within about a minute when the client is gone without a word. */
export async function noticeLoss(client: pg.Client): Promise<void> {
  await onPostgres(client.query(askSilent))
  // Servers on some systems cannot look while a statement runs, and refuse this. They notice after the statement.
  await onPostgres(client.query(askMeanwhile).catch(unlessRefused))
}

function unlessRefused(error: unknown): void {
  if (!(error instanceof pg.DatabaseError)) throw error
}
