#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# from_nothing.sh SOURCE_DIR [COMMAND [ARG]...]
# A fresh clone of the last commit on a Debian 12 as small as debootstrap makes it, from the mirror that this machine's
# apt uses, and in it the quick start (or COMMAND, such as tests/run): prints when what began, and how long all took.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
source=$(realpath "$1")
shift
command=("$@")
[ $# -gt 0 ] || command=(launch/quickstart)
kind=${command[*]}
. "$source/tests/end-to-end/bare_root.sh"
in_folder_of_its_own
find_mirror
debian_12
git clone --quiet "$source" "$root/hetpipe"

started=$SECONDS
code=0
inside 0 "" /usr/bin/env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
  /bin/bash -c 'cd /hetpipe && exec "$@"' bash "${command[@]}" 2>&1 |
  while IFS= read -r line; do
    echo "$line" >> "$folder/printed.txt"
    case $line in
      '== '* | *' s building, '* | *' passed, '* | 'failed: '* | 'test accuracy '*) printf '%5d s  %s\n' $((SECONDS - started)) "$line" ;;
    esac
  done || code=$?
[ $code -eq 0 ] || { tail -n 60 "$folder/printed.txt"; fail "$kind: exit code $code after $((SECONDS - started)) s"; }
[ "${command[*]}" != launch/quickstart ] || trained "$folder/printed.txt" 85
echo "$kind: good, $((SECONDS - started)) s, $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
