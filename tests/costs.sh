#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# costs.sh ROOT: the table "What a new ... costs" of docs/architecture.md, held against the tree. The files of a row are
# those of the program that have one of the row's names in their text or as their own name: no more, no fewer.
#   costs.sh ROOT --self-test   the same with a file too many, a file too few, and no table
set -uo pipefail

# ROOT [PAGE]: prints every row that is wrong; 1 if there is one. A row: | kind | `name` `other name` | `file` `file` |
check() (
  cd "$1" || exit 2
  page=${2:-docs/architecture.md}
  wrong=0 rows=0
  quoted() { grep -o '`[^`]*`' <<<"$1" | tr -d '`'; }
  while IFS='|' read -r _ kind example files _; do
    names=$(quoted "$example" | sed 's/\./\\./g' | paste -sd'|')
    said=$(quoted "$files" | sort)
    [ -n "$names" ] || continue
    rows=$((rows + 1))
    found=$({ grep -rlwE -- "$names" base partitioner kernels runtime launch
              find base partitioner kernels runtime launch -regextype posix-extended -regex ".*/($names)\.[a-z]*"; } | sort -u)
    [ "$said" = "$found" ] && continue
    wrong=$((wrong + 1))
    echo "$page: a new${kind% }:$example(< the page, > the tree)"
    diff <(echo "$said") <(echo "$found") | grep '^[<>]'
  done < <(sed -n '/^## What a new .* costs/,/^## [^W]/p' "$page" | grep '^|')
  [ $rows -gt 0 ] || echo "$page: no table 'What a new ... costs'"
  [ $rows -gt 0 ] && [ $wrong -eq 0 ]
)

self_test() {
  local failed=0
  spoiled=$(mktemp)
  trap 'rm -f "$spoiled"' EXIT
  for spoil in '/^| system /s/ |$/ `CMakeLists.txt` |/' '/^| schedule /s/ `[^`]*` |$/ |/' '/^## What a new /d'; do
    sed "$spoil" "$1/docs/architecture.md" >"$spoiled"
    check "$1" "$spoiled" >/dev/null && echo "not noticed: $spoil" && failed=1
  done
  return $failed
}

root=$(cd "$1" && pwd) || exit 2
if [ "${2:-}" = --self-test ]; then
  self_test "$root"
else
  check "$root"
fi
