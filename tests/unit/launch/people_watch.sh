#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# people_watch.sh PROBE: under mpirun every rank has a terminal of mpirun's making; what counts is where
# mpirun's own standard output ends.
set -euo pipefail
probe=$1
. "$(dirname "$0")/../../main/patience.sh"
command -v script > /dev/null || { echo "skipped: script (package bsdutils) is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TERM=xterm
run="timeout -k 2 $(patience 20) mpirun --oversubscribe -n 2 $probe"
failed=0

expect() { # WHAT ANSWER FILE...
  local what=$1 answer=$2; shift 2
  for file in "$@"; do
    if [ "$(cat "$file")" != "$answer" ]; then
      echo "$what: $(basename "$file") says $(cat "$file"), not $answer"
      failed=1
    fi
  done
}

script -qec "$run $folder/terminal" /dev/null > /dev/null < /dev/null
expect "mpirun on a terminal" yes "$folder/terminal.0" "$folder/terminal.1"
script -qec "timeout -k 2 $(patience 20) mpirun --oversubscribe -n 1 bash -c '$probe $folder/shell; :'" /dev/null > /dev/null < /dev/null
expect "a shell between" yes "$folder/shell.0"
script -qec "$run $folder/file > $folder/out" /dev/null > /dev/null < /dev/null
expect "mpirun into a file" no "$folder/file.0" "$folder/file.1"
script -qec "$run $folder/pipe | cat" /dev/null > /dev/null < /dev/null
expect "mpirun into a pipe" no "$folder/pipe.0" "$folder/pipe.1"
exit $failed
