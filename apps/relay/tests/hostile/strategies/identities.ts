/** Accounts whose documents hang, lie, or say something else each time. */
import { commitBody, Signer, ScriptedAccount, type ScriptedHost } from '@tributary/testkit'
import { documentOf, pour, type HostileHost } from '../hostile-host.ts'
import { pause, repeat, type Stage, type Strategy } from '../stage.ts'

const large = Buffer.alloc(64 * 1024, ' ')

export const identities: Readonly<Record<string, Strategy>> = {
  /** `did:web` on the attacker's own hosts whose documents never come, or byte by byte. Each host has one such DID. */
  'web-hangs': async (stage) => {
    const accounts = stage.hosts.map((host) => webAccount(stage, host))
    for (const host of stage.hosts) {
      host.answers.set('/.well-known/did.json', (_, response) => {
        stage.count('documents asked for')
        const how = stage.random.below(4)
        if (how === 0) return
        response.writeHead(200, { 'content-type': 'application/json' })
        if (how === 1) return void response.write('{')
        if (how === 2) return void pour(response, large, 64_000_000)
        const timer = setInterval(() => response.write(' '), 200)
        response.on('close', () => clearInterval(timer))
      })
    }
    await speakAll(stage, accounts, 60)
  },

  /** `did:web` whose documents lie: other DIDs, the keys and hosts of others, no JSON at all. */
  'web-lies': async (stage) => {
    const accounts = stage.hosts.map((host) => webAccount(stage, host))
    for (const host of stage.hosts) {
      host.answers.set('/.well-known/did.json', (_, response) => {
        stage.count('documents asked for')
        response.writeHead(stage.random.pick([200, 200, 200, 302, 500]), {
          'content-type': 'application/json',
          location: `http://${host.host}/.well-known/did.json?again`,
        })
        response.end(lie(stage, host))
      })
    }
    await speakAll(stage, accounts, 60)
  },

  /** Accounts that move between the hostile hosts all the time, and speak on both. */
  'moving-accounts': async (stage) => {
    const [first, second] = pair(stage)
    const accounts = await Promise.all(
      Array.from({ length: 5 }, () => first.createHostile({ announce: false })),
    )
    await repeat(stage, 60, async (index) => {
      const account = accounts[index % accounts.length]
      if (!account) return
      const [from, to] = index % 2 === 0 ? [first, second] : [second, first]
      const { did, handle } = account
      await first.register({ did, handle, signingKey: account.signer.did(), endpoint: to.url })
      say(account, stage.random.pick([from, to]))
      say(account, from)
      to.emit('#identity', { did })
      stage.count('moves')
    })
  },

  /** Accounts that two hosts speak for at the same time: an event of B always waits ahead of those of A. */
  'shared-accounts': async (stage) => {
    const [first, second] = pair(stage)
    const accounts = await Promise.all(Array.from({ length: 5 }, () => first.createHostile()))
    await repeat(stage, 200, (index) => {
      const account = accounts[index % accounts.length]
      if (!account || tooMuch(first) || tooMuch(second)) return
      say(account, second)
      say(account, first)
      stage.count('events', 2)
    })
  },

  /** An account of a document that cannot be had, shared by two hosts, and many events behind it. */
  'stuck-lane': async (stage) => {
    const [first, second] = pair(stage)
    second.answers.set('/.well-known/did.json', () => stage.count('documents asked for'))
    const stuck = webAccount(stage, second)
    const busy = await first.createHostile()
    await repeat(stage, 800, () => {
      if (tooMuch(first) || tooMuch(second)) return
      say(stuck, second)
      say(stuck, first)
      say(busy, first)
      stage.count('events', 3)
    })
  },

  /** Thousands of accounts that announce themselves, each with a document that has to be read. */
  'account-flood': async (stage) => {
    await repeat(stage, 10, async () => {
      const host = stage.random.pick(stage.hosts)
      if (tooMuch(host)) return
      await Promise.all(Array.from({ length: 10 }, () => host.createHostile()))
      stage.count('accounts', 10)
    })
    for (const host of stage.hosts)
      for (const did of [...host.accounts.keys()].slice(20)) host.accounts.delete(did)
  },

  /** Accounts that nobody can resolve, a new one with each event. */
  'unknown-accounts': async (stage) => {
    await repeat(stage, 500, (index) => {
      const host = stage.random.pick(stage.hosts)
      if (tooMuch(host)) return
      const did = index % 2 === 0 ? host.newDid() : `did:web:no-such-host-${index}.example.com`
      const signer = new Signer(stage.random.bytes(32))
      new ScriptedAccount(host, { did, handle: 'nobody.test', signer, rotationKey: signer }).announce()
      stage.count('accounts')
    })
  },

  /** Keys and handles that change with every event. */
  'changing-keys': async (stage) => {
    const host = stage.random.pick(stage.hosts)
    const accounts = await Promise.all(Array.from({ length: 5 }, () => host.createHostile()))
    await repeat(stage, 80, async (index) => {
      const account = accounts[index % accounts.length]
      if (!account) return
      const signer = new Signer(stage.random.bytes(32))
      const { did } = account
      await host.register({ did, handle: `h${index}.test`, signingKey: signer.did(), endpoint: host.url })
      if (index % 3 > 0) account.signer = signer
      say(account, host)
      account.announceIdentity({ handle: `h${index}.test` })
      stage.count('changes')
    })
  },
}

/** Emits a commit of an account on any host, whoever the account belongs to. */
function say(account: ScriptedAccount, host: ScriptedHost): void {
  const { did } = account
  const signed = account.commit([
    {
      action: 'create',
      collection: 'org.impact.collection',
      rkey: `k${sayCount++}`,
      record: { title: 'said' },
    },
  ])
  host.emit('#commit', { ...commitBody(signed), repo: did })
}

let sayCount = 0

async function speakAll(
  stage: Stage,
  accounts: readonly ScriptedAccount[],
  perSecond: number,
): Promise<void> {
  await repeat(stage, perSecond, (index) => {
    const account = accounts[index % accounts.length]
    const host = stage.random.pick(stage.hosts)
    if (!account) return
    account.announceIdentity({})
    say(account, host)
    stage.count('events', 2)
  })
  await pause(stage, 0)
}

function webAccount(stage: Stage, host: HostileHost): ScriptedAccount {
  const did = `did:web:${encodeURIComponent(host.host)}`
  const signer = new Signer(stage.random.bytes(32))
  return new ScriptedAccount(host, { did, handle: 'web.test', signer, rotationKey: signer })
}

function lie(stage: Stage, host: HostileHost): string {
  const victim = stage.random.pick(stage.victims)
  const did = `did:web:${encodeURIComponent(host.host)}`
  const signingKey = Signer.fromSeed('lie').did()
  const honest = { did, signingKey, endpoint: host.url }
  return stage.random.pick([
    () => documentOf({ ...honest, did: victim.did }),
    () => documentOf({ ...honest, endpoint: `http://${victim.host}`, handle: victim.handle }),
    () => documentOf({ ...honest, endpoint: 'http://169.254.169.254/' }),
    () => documentOf({ ...honest, endpoint: stage.relayUrl }),
    () => documentOf({ ...honest, endpoint: `http://${host.host}/${'x'.repeat(100_000)}` }),
    () => '{"error":"constructor"}',
    () => `{"__proto__":{"id":"${did}"}}`,
    () => `{"id":"${did}","verificationMethod":{"length":1e9},"service":"x"}`,
    () => `{"id":"${did}","verificationMethod":[null,1,[],{}],"service":[null]}`,
    () => '['.repeat(100_000),
    () => 'null',
    () => '',
  ])()
}

function pair(stage: Stage): [HostileHost, HostileHost] {
  const [first, second] = stage.hosts
  if (!first || !second) throw new Error('this takes two hosts')
  return stage.random.next() < 0.5 ? [first, second] : [second, first]
}

function tooMuch(host: HostileHost): boolean {
  return host.reader === undefined
}
