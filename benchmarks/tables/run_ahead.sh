# SPDX-License-Identifier: Apache-2.0
# The table run-ahead, sourced by benchmarks/run: how well ranks keep a device busy that is a clock
# (kernels/offload/clock_device.h): its passes take stated times, each is 600 launches of 3 us.

# A model of 40 layers that learn, in the files that an export writes: convolutions of one channel, and one to ten classes.
ahead_model() { # DIR
  local state="" tensors="" nodes="" from=x i n=39 at=0 name
  mkdir -p "$1"
  node() { # NAME OPERATOR INPUTS ATTRIBUTES SHAPE
    nodes+="${nodes:+, }{\"name\": \"$1\", \"op\": \"$2\", \"module\": \"$1\", \"source\": \"\", \"inputs\": {$3}, \"attributes\": {$4},"
    nodes+=" \"shape\": [\"N\", $5], \"type\": \"float32\"}"
  }
  conv() { # NAME CHANNELS ROWS PADDING OUTPUT_ROWS
    state+="${state:+, }\"$1.weight\": {\"shape\": [$2, 1, $3, $3], \"type\": \"float32\", \"kind\": \"parameter\"}"
    tensors+="${tensors:+, }\"$1.weight\": {\"dtype\": \"F32\", \"shape\": [$2, 1, $3, $3], \"data_offsets\": [$at, $((at + 4 * $2 * $3 * $3))]}"
    at=$((at + 4 * $2 * $3 * $3))
    node "$1" conv2d "\"input\": \"$from\", \"weight\": \"$1.weight\"" \
      "\"stride\": [1, 1], \"padding\": [$4, $4], \"dilation\": [1, 1], \"groups\": 1" "$2, $5, $5"
    from=$1
  }
  for ((i = 0; i < n; ++i)); do
    printf -v name 'conv%02d' "$i"
    conv "$name" 1 3 1 28
  done
  conv last 10 28 0 1
  node flat flatten "\"self\": \"last\"" '"start_dim": 1, "end_dim": -1' 10
  printf '{"format": "hetpipe-graph", "version": 1, "name": "chain", "producer": "", "inputs": [{"name": "x", "shape": ["N", 1, 28, 28], "type": "float32"}],\n' > "$1/graph.json"
  printf '"outputs": [{"name": "output", "value": "flat"}], "state": {%s}, "constants": {},\n"nodes": [%s]}\n' "$state" "$nodes" >> "$1/graph.json"
  name="{$tensors}"
  while ((${#name} % 8)); do name+=" "; done
  { printf '%b\0\0\0\0\0\0' "$(printf '\\x%02x\\x%02x' $((${#name} % 256)) $((${#name} / 256)))"
    printf '%s' "$name"; head -c "$at" /dev/zero; } > "$1/weights.safetensors"
}

# A plan of that model: one stage, or four of ten layers that learn.
ahead_plan() { # SYSTEM MICRO_BATCHES IN_FLIGHT STAGES FILE
  local cuts=("0, 41") i
  [ "$4" = 1 ] || cuts=("0, 10" "10, 20" "20, 30" "30, 41")
  {
    printf 'format = 1\nsystem = "%s"\nmodel = "chain"\nminibatch = 32\nmicro_batches = %s\nin_flight = %s\n' "$1" "$2" "$3"
    printf 'optimizer = "sgd-momentum"\n[[virtual_worker]]\n'
    for i in "${!cuts[@]}"; do
      printf '[[virtual_worker.stage]]\nlayers = [%s]\ndevices = ["%s:%d"]\n' "${cuts[$i]}" "$(hostname)" "$i"
    done
  } > "$5"
}

# Seconds for each minibatch in the steady state.
ahead_run() { # PLAN STAGES LAYER_SECONDS LAUNCHES MINIBATCHES RUN_AHEAD
  local out=$work/runs/$1-$3-$6
  rm -rf "$out"
  mpirun --oversubscribe -n "$2" "$build/bin/hetpipe" train --plan "$work/$1.toml" --cluster "$work/pool.toml" --model "$work/chain" \
    --data "$work/data" --device "offload:layer=$3,launches=$4" --run-ahead "$6" --epochs "$(awk -v n="$5" 'BEGIN {print n / 100}')" \
    --trace off --output "$out" > "$out.txt" 2>&1 || { tail -n 20 "$out.txt" >&2; die "training $1 failed"; }
  grep -o '[0-9]* samples/s  stale' "$out.txt" | awk '{v[NR] = $1} END {
    from = int(NR / 20); for (i = from + 1; i < NR; i++) {s += 1 / v[i]; n++} printf "%.6f\n", 32 * s / n}'
}

run_run_ahead() {
  build_targets hetpipe
  local pass layer row plan stages count bound additions seconds k
  mkdir -p "$work/runs"
  make_pictures "$work/data" 3200 28
  ahead_model "$work/chain"
  {
    printf 'format = 1\n[device.clock]\nmemory = 16_000_000_000\n[[node]]\nname = "%s"\n' "$(hostname)"
    printf 'devices = ["clock", "clock", "clock", "clock"]\n[link.intra_node]\nbandwidth = 12e9\n[link.inter_node]\nbandwidth = 6e9\n'
  } > "$work/pool.toml"
  ahead_plan pipedream 1 1 1 "$work/alone.toml"
  ahead_plan pipedream 1 8 4 "$work/continuous-1f1b.toml"
  ahead_plan pipedream-flush 8 1 4 "$work/1f1b-flush.toml"
  ahead_plan gpipe 8 1 4 "$work/gpipe.toml"
  ahead_plan zero-bubble 8 1 4 "$work/zb-h1.toml"
  echo "Share of the bound that trainings reach, with \`--run-ahead 1\` (every pass is waited for) / \`--run-ahead 2\`. A chain of 40"
  echo "layers that learn, minibatches of 32, on devices that are clocks: a forward takes as long as stated and so does a backward,"
  echo "which is 600 launches of 3 µs by the host each, in equal parts for all layers; copies to and from the host share 25 GB/s."
  echo "Alone: one rank has all 40 layers. Chain: four ranks have ten each, messages go through host memory and Open MPI."
  echo "Bounds, of a pass T: alone and continuous-1f1b (8 minibatches in flight) 2 T; 1f1b-flush and gpipe (8 micro-batches)"
  echo "11 (2 T + A), zb-h1 8 (2 T + A) + 3 (T - A), where A are the 10 kernels of 5 µs that add a micro-batch's gradients to those"
  echo "before it. Other small kernels are in no bound; nor is it in these that the first layer has no input gradient (T / 20 of the"
  echo "first stage's backward, T / 80 alone)."
  echo "Measured: the mean of the waves, the first 5 % left out."
  echo
  echo "| pass | alone | continuous-1f1b | 1f1b-flush | gpipe | zb-h1 |"
  echo "|---|---|---|---|---|---|"
  for pass in $(sized "1 2 5 20" 2); do
    row="| $pass ms |"
    for plan in alone:1:2:0 continuous-1f1b:4:2:0 1f1b-flush:4:22:11 gpipe:4:22:11 zb-h1:4:19:5; do
      IFS=: read -r plan stages bound additions <<< "$plan"
      layer=$(awk -v p="$pass" -v s="$stages" 'BEGIN {print p / 1000 / (s == 1 ? 40 : 10)}')
      count=$(sized "$(awk -v p="$pass" -v b="$bound" 'BEGIN {n = 8000 / (p * b); print int(n < 60 ? 60 : n)}')" 4)
      for k in 1 2; do
        seconds=$(ahead_run "$plan" "$stages" "$layer" $((stages == 1 ? 15 : 60)) "$count" $k)
        row+=$(awk -v b="$bound" -v a="$additions" -v p="$pass" -v s="$seconds" 'BEGIN {printf " %.3f", (b * p / 1000 + a * 50e-6) / s}')
        [ $k = 2 ] || row+=" /"
      done
      row+=" |"
    done
    echo "$row"
  done
}
