# SPDX-License-Identifier: Apache-2.0
# The tables emulated-pool and checkpoint, sourced by benchmarks/run.

prepare_pool() { # a profile of this machine now, and a plan from it
  build_targets hetpipe
  make_pictures "$work/data" "$(sized 12288 768)" "$(sized 32 28)"
  "$build/bin/hetpipe" profile --fresh --model "$(sized resnet-8 lenet)" --data "$work/data" --minibatch "$(sized 64 8)" --threads 1 \
    --output "$work/profile.toml" > "$work/profile.txt"
  "$build/bin/hetpipe" plan --cluster benchmarks/emulated-pool.toml --profile "$work/profile.toml" --policy np \
    --in-flight 4 --data "$work/data" --output "$work/plan.toml" > "$work/plan.txt"
}

train_pool() { # RUN [OPTION]...
  local run=$1
  shift
  rm -rf "${work:?}/$run"
  mpirun --oversubscribe -n "$(sed -n 's/^ *mpirun -np \([0-9]*\) .*/\1/p' "$work/plan.txt")" \
    "$build/bin/hetpipe" train --plan "$work/plan.toml" --cluster benchmarks/emulated-pool.toml \
    --profile "$work/profile.toml" --data "$work/data" --output "$work/$run" --learning-rate 0.001 "$@" \
    > "$work/$run.txt" 2>&1 || { tail -n 20 "$work/$run.txt" >&2; die "training failed"; }
}

# Mean samples/s of a run's waves but the first three and the last: equal numbers of samples, so the harmonic mean.
steady() { grep -o '[0-9]* samples/s  stale' "$work/$1.txt" | awk '{v[NR] = $1} END {for (i = 4; i < NR; i++) {s += 1 / v[i]; n++} printf "%.3f\n", n / s}'; }
bottleneck() { sed -n 's/^bottleneck = \([0-9.]*\).*/\1/p' "$work/plan.toml"; }
median() { sort -g | awk '{v[NR] = $1} END {printf "%.4f\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
spread() { sort -g | awk '{v[NR] = $1} END {m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; printf "%.4g (%.4g .. %.4g)\n", m, v[1], v[NR]}'; }

run_emulated_pool() {
  prepare_pool
  local bound part repetition repetitions=$(sized "${REPETITIONS:-5}" 1)
  # The slowest stage's modelled forward, backward and update of a minibatch; two virtual workers of 64 samples.
  part=$(awk -F'[ ,]+' '/^predicted = \{/ {for (i = 1; i < NF; i++) {if ($i == "forward") f = $(i + 2); if ($i == "backward") b = $(i + 2)} if (f + b > m) m = f + b} END {print m}' "$work/plan.toml")
  bound=$(awk -v t="$part" 'BEGIN {printf "%.3f", 2 * 64 / t}')
  # Of a minibatch, in kernels: each stage's modelled time over its slowdown is its time on this machine alone.
  local kernels
  kernels=$(awk -F'[ ,]+' '/^devices/ {s = ($0 ~ /:0/) ? 3 : 4} /^predicted = \{/ {for (i = 1; i < NF; i++) {if ($i == "forward") f = $(i + 2); if ($i == "backward") b = $(i + 2)} t += (f + b) / s} END {print t}' "$work/plan.toml")
  echo "ResNet-8 on noise of 32 x 32 pixels, minibatch 64, Nm = 4, D = 0; two virtual workers, each of a device 3 times and one 4"
  echo "times slower than this CPU ([emulated-pool.toml](../emulated-pool.toml)); profile and plan made immediately before."
  echo "Steady state: waves 4 to the last but one of 24. Bound: the slowest stage's modelled forward and backward of a"
  echo "minibatch, $(awk -v t="$part" 'BEGIN {printf "%.1f", 1e3 * t}') ms, for two times 64 samples: $bound samples/s. The goal is at least 0.95."
  echo
  echo "| run | samples/s | of the bound | share of two cores in kernels | actions overrun |"
  echo "|---|---|---|---|---|"
  for repetition in $(seq $repetitions); do
    train_pool "pool$repetition" --epochs 1 --trace off
    local speed
    speed=$(steady "pool$repetition")
    awk -v r="$repetition" -v s="$speed" -v b="$bound" -v k="$kernels" -v o="$(sed -n 's/^emulation: \([0-9]* of [0-9]*\) actions.*/\1/p' "$work/pool$repetition.txt")" \
      'BEGIN {printf "| %d | %.1f | %.3f | %.1f %% | %s |\n", r, s, s / b, 100 * k * s / 128 / 2, o}'
  done
  echo
  echo "Of the bound, median (least .. most): $(for r in $(seq $repetitions); do awk -v s="$(steady "pool$r")" -v b="$bound" 'BEGIN {print s / b}'; done | spread)."
  echo "In kernels: the stages' times without other load (profile) times minibatches per second, over two cores."
  echo
  echo "Where the rest goes, whole runs, start and end included:"
  echo
  echo '```'
  for repetition in $(seq $repetitions); do grep -E '^where the workers|^emulation' "$work/pool$repetition.txt"; done
  sed -n '/^summary/,/^throughput/p' "$work/pool$repetitions.txt"
  echo '```'
}

run_checkpoint() {
  prepare_pool
  local pair pairs step
  pairs=$(sized "${REPETITIONS:-5}" 1)
  step=$(bottleneck)
  for pair in $(seq $pairs); do # in turns
    train_pool "every$pair" --epochs 0.5 --checkpoint-every 1 --trace off
    train_pool "none$pair" --epochs 0.5 --trace off
  done
  echo "The pool of the table emulated-pool, 12 waves of 4 minibatches: a run that writes a checkpoint after every wave and"
  echo "one that writes only the last, in turns. A step is a minibatch of the slowest stage, $(awk -v t="$step" 'BEGIN {printf "%.1f", 1e3 * t}') ms. Training's wait per"
  echo "checkpoint is the difference of the times per wave in the steady state. The goal is less than one step."
  echo
  echo "| pair | samples/s with | samples/s without | wait per checkpoint, steps |"
  echo "|---|---|---|---|"
  for pair in $(seq $pairs); do
    awk -v p="$pair" -v a="$(steady "every$pair")" -v b="$(steady "none$pair")" -v t="$step" \
      'BEGIN {printf "| %d | %.1f | %.1f | %.3f |\n", p, a, b, (512 / a - 512 / b) / t}'
  done
  echo
  echo "Median (least .. most) of the wait, in steps: $(for p in $(seq $pairs); do awk -v a="$(steady "every$p")" -v b="$(steady "none$p")" -v t="$step" 'BEGIN {print (512 / a - 512 / b) / t}'; done | spread). Negative values are noise."
  echo
  echo "Where it goes, last pair, with and without:"
  echo
  echo '```'
  for run in "every$pairs" "none$pairs"; do grep -E '^throughput|^where the workers|^emulation' "$work/$run.txt"; done
  echo '```'
}
