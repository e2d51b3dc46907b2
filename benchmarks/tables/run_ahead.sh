# SPDX-License-Identifier: Apache-2.0
# The table run-ahead, sourced by benchmarks/run: how well ranks keep a device busy that is a clock
# (kernels/offload/clock_device.h): its passes take stated times, each is 600 launches of 3 us.

# A plan of LeNet, whose four layers that learn take one time each: in one stage, or one in each of four.
ahead_plan() { # SYSTEM MICRO_BATCHES IN_FLIGHT STAGES FILE
  local cuts=("0, 12") i
  [ "$4" = 1 ] || cuts=("0, 3" "3, 6" "6, 10" "10, 12")
  {
    printf 'format = 1\nsystem = "%s"\nmodel = "lenet"\nminibatch = 32\nmicro_batches = %s\nin_flight = %s\n' "$1" "$2" "$3"
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
  mpirun --oversubscribe -n "$2" "$build/bin/hetpipe" train --plan "$work/$1.toml" --cluster "$work/pool.toml" --model lenet \
    --data "$work/data" --device "offload:layer=$3,launches=$4" --run-ahead "$6" --epochs "$(awk -v n="$5" 'BEGIN {print n / 100}')" \
    --trace off --output "$out" > "$out.txt" 2>&1 || { tail -n 20 "$out.txt" >&2; die "training $1 failed"; }
  grep -o '[0-9]* samples/s  stale' "$out.txt" | awk '{v[NR] = $1} END {
    from = int(NR / 20); for (i = from + 1; i < NR; i++) {s += 1 / v[i]; n++} printf "%.6f\n", 32 * s / n}'
}

run_run_ahead() {
  build_targets hetpipe
  local pass layer row plan stages count bound seconds k
  mkdir -p "$work/runs"
  make_pictures "$work/data" 3200 28
  {
    printf 'format = 1\n[device.clock]\nmemory = 16_000_000_000\n[[node]]\nname = "%s"\n' "$(hostname)"
    printf 'devices = ["clock", "clock", "clock", "clock"]\n[link.intra_node]\nbandwidth = 12e9\n[link.inter_node]\nbandwidth = 6e9\n'
  } > "$work/pool.toml"
  ahead_plan pipedream 1 1 1 "$work/alone.toml"
  ahead_plan pipedream 1 8 4 "$work/continuous-1f1b.toml"
  ahead_plan pipedream-flush 8 1 4 "$work/1f1b-flush.toml"
  ahead_plan gpipe 8 1 4 "$work/gpipe.toml"
  ahead_plan zero-bubble 8 1 4 "$work/zb-h1.toml"
  echo "Share of the bound that trainings reach, with \`--run-ahead 1\` (every pass is waited for) / \`--run-ahead 2\`. LeNet, minibatches"
  echo "of 32, on devices that are clocks: a layer that learns takes as long as stated for its forward and for its backward, which is"
  echo "600 launches of 3 µs by the host each; copies to and from the host share 25 GB/s. Alone: one rank has all four such layers, a"
  echo "quarter of the pass each. Chain: four ranks have one each, messages go through host memory and Open MPI."
  echo "Bounds, of a pass T (the first layer's backward takes T / 2, as it has no input gradient): alone 2 T - T / 8;"
  echo "continuous-1f1b (8 minibatches in flight) 2 T; 1f1b-flush and gpipe (8 micro-batches) 21.5 T; zb-h1 19 T."
  echo "Small kernels, 5 µs each, are in no bound: alone about 25 for each minibatch, 1.3 % of it at 5 ms."
  echo "Measured: the mean of the waves, the first 5 % left out."
  echo
  echo "| pass | alone | continuous-1f1b | 1f1b-flush | gpipe | zb-h1 |"
  echo "|---|---|---|---|---|---|"
  for pass in $(sized "1 2 5 20" 2); do
    row="| $pass ms |"
    for plan in alone:1:1.875 continuous-1f1b:4:2 1f1b-flush:4:21.5 gpipe:4:21.5 zb-h1:4:19; do
      IFS=: read -r plan stages bound <<< "$plan"
      layer=$(awk -v p="$pass" -v s="$stages" 'BEGIN {print p / 1000 / (s == 1 ? 4 : 1)}')
      count=$(sized "$(awk -v p="$pass" -v b="$bound" 'BEGIN {n = 8000 / (p * b); print int(n < 40 ? 40 : n)}')" 4)
      for k in 1 2; do
        seconds=$(ahead_run "$plan" "$stages" "$layer" $((stages == 1 ? 150 : 600)) "$count" $k)
        row+=$(awk -v b="$bound" -v p="$pass" -v s="$seconds" 'BEGIN {printf " %.3f", b * p / 1000 / s}')
        [ $k = 2 ] || row+=" /"
      done
      row+=" |"
    done
    echo "$row"
  done
}
