#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# own_model.sh HETPIPE SOURCE: the commands of docs/own-model.md after the export (tests/models/net is what
# docs/example/own_model.py exports), on little data: from an exported model to a state_dict, and from one.
set -uo pipefail
hetpipe=$1
source=$2
. "$(dirname "$0")/fashion_scratch.sh"
cd "$folder" || exit 1
cp -r "$source/tests/models/net" "$source/cluster-configs" .
PATH=$(dirname "$hetpipe"):$PATH
failed=0
fail() { echo "FAILED: $*"; failed=1; }
run() { "$@" > out 2> err || fail "$* ended with $?: $(tail -n 5 err)"; }
on_ranks() { run mpirun --oversubscribe -n 5 hetpipe train --plan plan.toml --cluster cluster-configs/fashion-quickstart.toml \
               --profile net.toml --data fashion-mnist --log-every 1000 --trace off "$@"; }

run hetpipe check --model net --batch net/check.safetensors
grep -q "^net: 11 layers, 11026 parameters, 4 samples" out || fail "check says: $(head -n 1 out)"
run hetpipe profile --model net --data fashion-mnist --minibatch 16 --output net.toml
grep -q "^blocks.0.act " out || fail "the profile does not name layers by module"
run hetpipe plan --cluster cluster-configs/fashion-quickstart.toml --profile net.toml --model net --data fashion-mnist --output plan.toml
grep -q -- "--model net --data fashion-mnist" out || fail "the plan does not print --model: $(tail -n 3 out)"
run hetpipe simulate --cluster cluster-configs/fashion-quickstart.toml --profile net.toml --plan plan.toml
on_ranks --model net --epochs 0.02 --shuffle none --output run
grep -q "^test accuracy" out || fail "no accuracy at the end"
run hetpipe checkpoint export run --model net --output trained.safetensors
grep -q "^18 tensors of run/" out || fail "the export says $(cat out)"
# Names, types and shapes in the order of the model's own state_dict.
header() { head -c $((8 + $(od -An -t u8 -N 8 "$1"))) "$1" | tail -c +9 | grep -o '"[a-z0-9_.]*":{"d[^}]*"shape":[^}]*' | sed 's/"data_offsets":[^]]*],*//' | sort; }
cmp <(header net/weights.safetensors) <(header trained.safetensors) || fail "the state_dict has other tensors"

# From a state_dict: what was trained comes back, bit for bit.
run hetpipe checkpoint import trained.safetensors --model net --output start.h5
run hetpipe checkpoint verify start.h5
on_ranks --model net --epochs 0.01 --resume start.h5 --output resumed
on_ranks --model net --epochs 0.01 --init trained.safetensors --output started
run hetpipe checkpoint export start.h5 --model net --output again.safetensors
cmp <(tail -c 44096 trained.safetensors | head -c 1024) <(tail -c 44096 again.safetensors | head -c 1024) || fail "weights changed"

# Mistakes.
refused() { # TEXT COMMAND...
  local text=$1 code=0; shift
  "$@" > out 2> err || code=$?
  [ $code -eq 2 ] || fail "$*: exit code $code, not 2"
  grep -q -F -- "$text" err || fail "$*: not '$text' but: $(cat err)"
}
refused "it was exported for (28, 28, 1)" hetpipe profile --model net --sample 32x32x3 --classes 10 --output no.toml
refused "lacks 'stem.weight'" hetpipe checkpoint import net/check.safetensors --model net --output no.h5
refused "is no folder with a graph.json" hetpipe checkpoint export run --model cluster-configs --output no.safetensors
sed -i 's/"op": "conv2d", "module": "stem"/"op": "conv9d", "module": "stem"/; s/"op": "mean"/"op": "median"/' net/graph.json
refused "own_model.py:27: stem (conv9d): no layer computes this operator" hetpipe check --model net --batch net/check.safetensors
refused "(median): no layer computes this operator" hetpipe check --model net --batch net/check.safetensors
head -c 300 net/weights.safetensors > short.safetensors && mv short.safetensors net/weights.safetensors
refused "net/weights.safetensors: is cut short" hetpipe check --model net --batch net/check.safetensors
exit $failed
