#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/sample_order.py, the order of samples in Python, against the golden file that data_test holds the
# sampler to: sample_order.sh SOURCE_FOLDER. 77: no python3.
set -euo pipefail
source=$1
command -v python3 > /dev/null || { echo "skipped: no python3"; exit 77; }
golden=$source/tests/golden/sample-order.txt
sed -n 's/^# //p' "$golden" | while read -r -a arguments; do
  echo "# ${arguments[*]}"
  python3 -B "$source/docs/sample_order.py" "${arguments[@]}"
done | diff - "$golden"
