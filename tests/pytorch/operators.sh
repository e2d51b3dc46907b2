#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# operators.sh SOURCE: every operator that the exporter writes is lowered by the importer: the tables of
# launch/pytorch/hetpipe_export.py against the rows of runtime/model/graph/lower_*.cpp.
set -uo pipefail
source=$1
known=$(sed -n '/^POINTWISE = {/,/^# Why an operator/p' "$source/launch/pytorch/hetpipe_export.py" | grep -o '"[a-z0-9_]*": ' | tr -d '": ')
[ "$(wc -w <<< "$known")" -gt 100 ] || { echo "the exporter's table was not found"; exit 1; }
failed=0
for operator in $known; do
  grep -q "\"$operator\"" "$source"/runtime/model/graph/lower_*.cpp "$source"/runtime/model/graph/{recognise,own_loss}.cpp ||
    { echo "$operator: exported, but not imported"; failed=1; }
done
exit $failed
