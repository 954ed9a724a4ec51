import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostTurns } from './host-turns.ts'

/** Gives a host its turn, and tells what was begun. */
function begunIn(turns: HostTurns, host: string, { hasJob = true } = {}): string {
  let begun = ''
  const work = {
    mark: (did: string) => Boolean((begun = did)),
    ofJob: () => hasJob && Boolean((begun = 'job')),
  }
  turns.take(host, work)
  return begun
}

test('hosts take turns, and marked accounts and jobs of a host do so too', () => {
  const turns = new HostTurns()
  for (const did of ['m1', 'm2']) turns.addMark('a', did)
  turns.add('b')
  const begun = [1, 2, 3, 4].flatMap(() =>
    [...turns.hosts()].slice(0, 1).map((host) => `${host} ${begunIn(turns, host)}`),
  )
  assert.deepEqual(begun, ['a m1', 'b job', 'a job', 'b job'])
  assert.equal(begunIn(turns, 'a', { hasJob: false }), 'm2')
})

test('a host without anything to be read leaves, and comes after all others when it is back', () => {
  const turns = new HostTurns()
  for (const host of ['a', 'b']) turns.add(host)
  assert.equal(begunIn(turns, 'a', { hasJob: false }), '')
  turns.add('a')
  assert.deepEqual([...turns.hosts()], ['b', 'a'])
})

test('so many marked accounts of a host wait, and so many hosts', () => {
  const turns = new HostTurns()
  for (let n = 0; n < 10_200; n++) turns.add(`pds${n}`)
  for (let n = 0; n < 20; n++) turns.addMark('pds0', `did:plc:${n}`)
  turns.addMark('one-more', 'did:plc:a')
  assert.equal([...turns.hosts()].length, 10_100)
  const begun = Array.from({ length: 9 }, () => begunIn(turns, 'pds0', { hasJob: false }))
  assert.deepEqual([begun.at(7), begun.at(8)], ['did:plc:7', ''])
})
