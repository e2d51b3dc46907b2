#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/sample_order.py, the order of samples in Python, docs/transforms.py and docs/mixing.py, what is random in transforms
# and mixtures, against the golden files that data_test holds the library to: sample_order.sh SOURCE_FOLDER. 77: no python3.
set -euo pipefail
source=$1
command -v python3 > /dev/null || { echo "skipped: no python3"; exit 77; }
compare() { # PROGRAM GOLDEN
  sed -n 's/^# //p' "$2" | while read -r -a arguments; do
    echo "# ${arguments[*]}"
    python3 -B "$1" "${arguments[@]}"
  done | diff - "$2"
}
compare "$source/docs/sample_order.py" "$source/tests/golden/sample-order.txt"
compare "$source/docs/transforms.py" "$source/tests/golden/transforms.txt"
compare "$source/docs/mixing.py" "$source/tests/golden/mixing.txt"
