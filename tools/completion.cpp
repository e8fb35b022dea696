// SPDX-License-Identifier: MIT
#include <cstdio>

#include "tools/commands.h"

namespace verbatim::tools {

namespace {

constexpr const char* kBash = R"bash(_verbatim() {
  local words="run devices status explain doctor capture inject completion --help --version"
  case "${COMP_WORDS[1]}" in
    run) COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")); return ;;
    devices | status) words="--json --help" ;;
    explain) words="--json --follow --help" ;;
    doctor) words="--json --patience --listen --help $(compgen -A hostname -- "${COMP_WORDS[COMP_CWORD]}")" ;;
    capture)
      words="--write --device --qp --count --snaplen --buffer --help"
      case "${COMP_WORDS[COMP_CWORD - 1]}" in -w | --write) compopt -o default; return ;; esac ;;
    inject)
      words="add list remove clear --help"
      case "${COMP_WORDS[2]}" in
        add) words="--drop --corrupt --duplicate --reorder --delay --jitter --probability --opcode --qp --source
          --destination --direction --nth --count --seed --help" ;;
        list) words="--json --help" ;;
        remove | clear) words="--help" ;;
      esac
      ((COMP_CWORD == 2)) && words="add list remove clear --help"
      case "${COMP_WORDS[COMP_CWORD - 1]}" in
        --opcode) words="send write read response ack atomic flush cnp cm" ;;
        --direction) words="out in both" ;;
      esac ;;
    completion) words="bash zsh fish" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _verbatim verbatim
)bash";

constexpr const char* kZsh = R"(#compdef verbatim
_verbatim() {
  local -a commands=(run:'run a program on these libraries' devices:'list devices' status:'list live processes'
    explain:'recent errors in words' doctor:'why two hosts cannot talk'
    capture:'write packets to a file for Wireshark' inject:'damage packets on purpose' completion:'print a completion script')
  if ((CURRENT == 2)); then _describe command commands; return; fi
  case $words[2] in
    run) _normal -p ;;
    devices | status) _arguments '--json[machine readable]' ;;
    explain) _arguments '--json[machine readable]' '--follow[go on with what comes]' ;;
    doctor) _arguments '--json[machine readable]' '--patience[for an answer]:seconds:' '--listen[have the port open for the other end]' ':host:_hosts' ;;
    capture)
      _arguments {-w,--write}'[the file]:file:_files' {--device,--qp,--count,--snaplen,--buffer}'[see --help]:value:' ;;
    inject)
      if ((CURRENT == 3)); then _values action add list remove clear; return; fi
      case $words[3] in
        add) _arguments {--drop,--corrupt,--duplicate,--reorder,--delay,--jitter,--probability,--qp,--source}'[see --help]:value:' \
          {--destination,--nth,--count,--seed}'[see --help]:value:' '--direction:which:(out in both)' \
          '--opcode:which:(send write read response ack atomic flush cnp cm)' ;;
        list) _arguments '--json[machine readable]' ;;
      esac ;;
    completion) _values shell bash zsh fish ;;
  esac
}
compdef _verbatim verbatim
)";

constexpr const char* kFish =
    R"(complete -c verbatim -f -n __fish_use_subcommand -a 'run devices status explain doctor capture inject completion'
complete -c verbatim -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand)'
complete -c verbatim -f -n '__fish_seen_subcommand_from devices status explain doctor' -l json
complete -c verbatim -f -n '__fish_seen_subcommand_from explain' -l follow
complete -c verbatim -f -n '__fish_seen_subcommand_from doctor' -l listen -l patience -a '(__fish_print_hostnames)'
complete -c verbatim -n '__fish_seen_subcommand_from capture' -l write -s w -r
complete -c verbatim -f -n '__fish_seen_subcommand_from capture' -l device -l qp -l count -l snaplen -l buffer
complete -c verbatim -f -n '__fish_seen_subcommand_from inject' -a 'add list remove clear'
complete -c verbatim -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
)";

}  // namespace

int completion(const std::string& shell) {
  std::fputs(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish, stdout);
  return 0;
}

}  // namespace verbatim::tools
