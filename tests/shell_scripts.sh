#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shell_scripts.sh ROOT: shellcheck over every shell script of the tree. Left out is what it cannot know of files that
# source each other (SC1090, SC1091, SC2034, SC2154), and what is meant: words that are split (SC2046, SC2207), names compared
# with patterns (SC2053), names with a '-' (SC2100), codes that are not asked for (SC2155). Exit code 77: no shellcheck here.
set -uo pipefail
command -v shellcheck > /dev/null || { echo "skipped: shellcheck is not installed"; exit 77; }
cd "$1" || exit 2
mapfile -t scripts < <(find . -path ./.git -prune -o -path './build*' -prune -o -type f \( -name '*.sh' -o -perm -u=x \) -print |
  sort | while read -r file; do
    [[ $file != *.sh ]] && [[ $(head -n 1 "$file" | tr -d '\0') != '#!/bin/'*sh ]] || echo "$file"
  done)
[ ${#scripts[@]} -ge 50 ] || { echo "only ${#scripts[@]} scripts were found"; exit 1; }
shellcheck --shell=bash --severity=warning --exclude=SC1090,SC1091,SC2034,SC2046,SC2053,SC2100,SC2154,SC2155,SC2207 "${scripts[@]}"
