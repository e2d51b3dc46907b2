#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# claims.sh SOURCE_DIR
# The verdicts of benchmarks/convergence/claims follow one rule, which takes no side: ranges over seeds that overlap
# distinguish nothing, whichever mean is larger, for claims with and without a slack.
set -euo pipefail
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# expect CLAIM VERDICT A B: of systems with these accuracies, each "mean least most".
expect() {
  local claim=$1 wanted=$2 found a b
  read -ra a <<< "$3"
  read -ra b <<< "$4"
  {
    echo "| name | runs | time | speed | test accuracy |"
    echo "| ${claim%% *} | 3 | 1 s | 10 | ${a[0]} % (${a[1]}..${a[2]}) |"
    echo "| ${claim##* } | 3 | 1 s | 10 | ${b[0]} % (${b[1]}..${b[2]}) |"
  } > "$folder/compare.md"
  found=$("$source/benchmarks/convergence/claims" "$folder/compare.md" | sed -n "s/^| $claim |.*| \(.*\) |\$/\1/p")
  [ "$found" = "$wanted" ] || { echo "$claim of ($3) and ($4): '$found' instead of '$wanted'"; exit 1; }
}

claim="spectrain at least vanilla"
expect "$claim" "holds" "85.6 84.4 86.4" "83.1 81.2 84.3"
expect "$claim" "**does not hold**" "83.1 81.2 84.3" "85.6 84.4 86.4"
expect "$claim" "not distinguished" "85.6 84.2 86.4" "83.1 81.2 84.3"
expect "$claim" "not distinguished" "83.1 81.2 84.3" "85.6 84.2 86.4"

claim="vanilla within 1 point of synchronous"
expect "$claim" "holds" "84.0 83.5 84.5" "83.9 83.8 84.4"
expect "$claim" "**does not hold**" "82.0 81.9 82.3" "83.9 83.8 84.4"
expect "$claim" "not distinguished" "83.5 83.0 84.2" "84.0 83.8 84.4"
expect "$claim" "not distinguished" "82.5 81.9 83.0" "83.9 83.8 84.4"
