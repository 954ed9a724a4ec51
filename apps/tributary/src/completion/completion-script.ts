/** Scripts that complete what is typed. They hold the whole tree of commands, so that a key costs no start of Node. */
import type { CommandNode, Flag } from './command-tree.ts'

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

/** Where to put each of them, for the help. */
export const completionHelp = `
Put one of these lines into the file that your shell reads at its start:
  bash  ~/.bashrc                   eval "$(tributary completion bash)"
  zsh   ~/.zshrc, after compinit    eval "$(tributary completion zsh)"
  fish  ~/.config/fish/config.fish  tributary completion fish | source`

export function completionScript(shell: Shell, tree: readonly CommandNode[]): string {
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[shell](tree)
}

function bashScript(tree: readonly CommandNode[]): string {
  return `# Completion of tributary for bash.
_tributary() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} at=tributary word words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    case "$at $word" in
      ${pathsOf(tree).map(quoted).join('|')}) at="$at $word" ;;
    esac
  done
  COMPREPLY=()
  case "$at $previous" in
${valueCases(tree, (words) => `words=${quoted(words.join(' '))}`, 'return')}
    *)
      case "$at" in
${cases(tree, ({ path, commands, flags }) => {
  const words = [...commands, ...flags].map(({ word }) => word)
  return `        ${quoted(path)}) words=${quoted(words.join(' '))} ;;`
})}
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o bashdefault -o default -F _tributary tributary
`
}

function zshScript(tree: readonly CommandNode[]): string {
  const described = ({ word, summary }: { word: string; summary: string }): string =>
    quoted(`${word}:${summary}`)
  return `#compdef tributary
# Completion of tributary for zsh.
_tributary() {
  local at=tributary word
  local -a found
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
      (${pathsOf(tree).map(quoted).join('|')}) at="$at $word" ;;
    esac
  done
  case "$at $words[CURRENT-1]" in
${valueCases(tree, (words) => `compadd -- ${words.map(quoted).join(' ')}; return`, '_files; return', '(')}
  esac
  case "$at" in
${cases(
  tree,
  ({ path, commands, flags }) =>
    `    (${quoted(path)}) found=(${[...commands, ...flags].map(described).join(' ')}) ;;`,
)}
  esac
  _describe tributary found
}
if [ "$funcstack[1]" = _tributary ]; then _tributary "$@"; else compdef _tributary tributary; fi
`
}

function fishScript(tree: readonly CommandNode[]): string {
  const lines = tree.flatMap(({ path, commands, flags }) => {
    const start = `complete -c tributary -n ${fishQuoted(`__tributary_is ${fishQuoted(path)}`)}`
    return [
      `${start} -f`,
      ...commands.map(({ word, summary }) => `${start} -a ${word} -d ${fishQuoted(summary)}`),
      ...flags.map(
        ({ word, summary, value }) =>
          `${start} -l ${word.slice(2)}${fishValue(value)} -d ${fishQuoted(summary)}`,
      ),
    ]
  })
  return `# Completion of tributary for fish.
function __tributary_is
  set -l at tributary
  for word in (commandline -opc)[2..-1]
    switch "$at $word"
      case ${pathsOf(tree).map(fishQuoted).join(' ')}
        set at "$at $word"
    end
  end
  test "$at" = $argv[1]
end
${lines.join('\n')}
`
}

function fishValue(value: Flag['value']): string {
  if (value === 'none') return ''
  if (value === 'file') return ' -r -F'
  return value === 'other' ? ' -x' : ` -x -a ${fishQuoted(value.join(' '))}`
}

/** Every command but the whole program, as it is typed. */
function pathsOf(tree: readonly CommandNode[]): string[] {
  return tree.slice(1).map(({ path }) => path)
}

function cases(tree: readonly CommandNode[], lineOf: (node: CommandNode) => string): string {
  return tree.map(lineOf).join('\n')
}

/** What comes after a flag with a value: its words, or whatever the shell offers for others. */
function valueCases(
  tree: readonly CommandNode[],
  offer: (words: readonly string[]) => string,
  otherwise: string,
  open = '',
): string {
  const lines = tree.flatMap(({ path, flags }) => {
    const withValue = flags.filter(({ value }) => value !== 'none')
    const chosen = withValue.flatMap(({ word, value }) =>
      Array.isArray(value) ? [`    ${open}${quoted(`${path} ${word}`)}) ${offer(value)} ;;`] : [],
    )
    const others = withValue.filter(({ value }) => !Array.isArray(value))
    if (others.length === 0) return chosen
    const patterns = others.map(({ word }) => quoted(`${path} ${word}`)).join('|')
    return [...chosen, `    ${open}${patterns}) ${otherwise} ;;`]
  })
  return lines.join('\n')
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
