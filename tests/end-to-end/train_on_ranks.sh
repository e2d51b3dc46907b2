#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# train_on_ranks.sh HETPIPE
# `hetpipe train --cluster ranks` under mpirun: devices, links and model are measured, the plan is made for the ranks that
# were started; resumed with fewer of them; ended; with a rank that no plan needs. Whatever is measured, the plan has a
# virtual worker on each device and waves of one length.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
. "$(dirname "$0")/fashion_scratch.sh"
export HETPIPE_CACHE=$folder/cache
host=$(uname -n)

train() { # RANKS NAME OPTION...: what it said is in $folder/NAME
  local ranks=$1 name=$2 code=0
  shift 2
  mpirun --oversubscribe -n "$ranks" "$hetpipe" train --cluster ranks --device cpu --model mlp --data fashion-mnist \
    --policy ed --minibatch 32 --in-flight 2 --trace off "$@" > "$folder/$name" 2>&1 || code=$?
  echo "exit code $code" >> "$folder/$name"
}
said() { # NAME TEXT...
  local name=$1 text
  shift
  for text in "$@"; do
    grep -q -- "$text" "$folder/$name" || { echo "$name: not said: $text"; cat "$folder/$name"; exit 1; }
  done
}

train 3 three --epochs 0.1 --output "$folder/run" --rehearse-preemption 5
said three 'exit code 75' 'devices and links were measured now' 'measured now' 'rehearsed preemption after' \
  'virtual worker 0, stage 0 on .* + parameter server 0'
[ "$(grep -c "virtual worker [0-2], stage 0 on $host:[0-2]" "$folder/three")" -eq 3 ] || { cat "$folder/three"; exit 1; }
train 2 two --epochs 0.1 --output "$folder/run" --resume auto
said two 'exit code 0' 'with 2 ranks' 'mlp on cpu: .* measured earlier' 'samples consumed; pipelines start empty'
train 2 ended --epochs 0.1 --output "$folder/run" --resume auto
said ended 'exit code 0' 'is from the end of the training (6000 samples): nothing is left to do'

# A device, a server, and a rank too many.
cat > "$folder/pool.toml" <<POOL
format = 1
[device.cpu]
memory = 2_000_000_000
[[node]]
name = "$host"
devices = ["cpu"]
[link.intra_node]
bandwidth = 1e9
POOL
train 3 spare --pool "$folder/pool.toml" --epochs 0.05 --output "$folder/spare-run" --resume auto
said spare 'exit code 0' 'virtual worker 0, stage 0' 'parameter server 0 on' ' spare$'
train 2 nothing --pool "$folder/missing.toml" --epochs 0.05
said nothing 'exit code 2' 'missing.toml'
