#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install_packages.sh ROOT: launch/common.sh against a package system that only writes down what it is asked for.
set -uo pipefail
root=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

mkdir "$folder/bin"
fake() { printf '#!/bin/bash\n%s\n' "$2" > "$folder/bin/$1"; chmod +x "$folder/bin/$1"; }
fake dpkg-query 'case ${!#} in there) echo installed ;; removed) echo config-files ;; *) exit 1 ;; esac'
fake apt-get 'echo "apt-get $* ($DEBIAN_FRONTEND)" >> "$CALLS"'
fake id 'echo "${FAKE_ID:-0}"'
for tool in bash env cat; do ln -s "$(command -v "$tool")" "$folder/bin/$tool"; done

try() { # USER PACKAGE...: sets said, code, calls
  local user=$1; shift
  : > "$folder/calls"
  code=0
  said=$(PATH=$folder/bin FAKE_ID=$user CALLS=$folder/calls bash -euo pipefail -c \
    'common=$1; shift; . "$common"; install_packages "$@"' bash "$root/launch/common.sh" "$@" 2>&1) || code=$?
  calls=$(cat "$folder/calls")
}
expect() { # WHAT IS SHOULD
  if [ "$2" != "$3" ]; then printf 'FAILED: %s\n  is:     %s\n  should: %s\n' "$1" "$2" "$3"; failed=1; fi
}

try 0 "there: in use"
expect "nothing missing: code" "$code" 0
expect "nothing missing: silence" "$said" ""
expect "nothing missing: no call" "$calls" ""

update="apt-get update -qq (noninteractive)"
install="apt-get install -y -qq --no-install-recommends gone removed (noninteractive)"
try 0 "there: in use" "gone: it compiles" "removed: it runs"
expect "as root: code" "$code" 0
expect "as root: calls" "$calls" "$update"$'\n'"$install"
expect "as root: reasons" "$said" "== missing: gone: it compiles"$'\n'"== missing: removed: it runs"$'\n'"== installing gone removed"

try 1000 "gone: it compiles"
expect "neither root nor sudo: code" "$code" 2
expect "neither root nor sudo: no call" "$calls" ""
expect "neither root nor sudo: remedy" "${said##*$'\n'}" \
  "packages are missing, and there is neither root access nor sudo. As root: apt-get install gone"

fake sudo 'echo "sudo" >> "$CALLS"; exec "$@"'
try 1000 "gone: it compiles"
expect "with sudo: code" "$code" 0
expect "with sudo: calls" "$(grep -c '^sudo$' <<< "$calls")" 2
exit $failed
