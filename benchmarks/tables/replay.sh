# SPDX-License-Identifier: Apache-2.0
# The table replay, sourced by benchmarks/run. EPOCHS: of each run.

# A number of a JSON document on standard input, by its key, the first there is.
number_of() { awk -F '[:,]' -v key="\"$1\"" 'index($1, key) && !n++ {print $2 + 0}'; }

# What a run of every system took, and what simulating its plan with the recorded times of its actions takes.
run_replay() {
  build_targets hetpipe
  local pool data minibatch epochs plan name recorded replayed modelled
  epochs=$(sized "${EPOCHS:-0.1}" 1)
  rm -rf "$work/runs"
  plans_of_throughput
  echo "The pool, model, profile and plans of the table throughput; runs of ${EPOCHS:-0.1} epochs, from the first action's start to the"
  echo "end of the last. Replayed: \`hetpipe simulate --durations\` with what \`hetpipe trace export\` makes of the run's trace."
  echo "Messages modelled: the same without the rows of messages, sums and snapshots, which then take the times of the network. Simulated and real"
  echo "sums and servers differ (the table throughput), and so the goal is of the first."
  echo
  echo "| plan | minibatches | recorded, s | replayed, s | error | messages modelled, s | error | actions overrun |"
  echo "|---|---|---|---|---|---|---|---|"
  : > "$work/errors"
  for plan in "$work"/plans/*.toml; do
    name=$(basename "$plan" .toml)
    [[ $trial = no || $name =~ ^(hetpipe-d4|hybrid|interleaved)$ ]] || continue
    record_run "$name" "$plan" "$pool" "$data" "$epochs"
    recorded=$(number_of seconds < "$work/$name-export.json")
    replayed=$(replay "$name" "$plan" "$pool" "$work/$name.csv")
    grep -vE ',(activations|gradients|sum|snapshot),' "$work/$name.csv" > "$work/$name-computing.csv"
    modelled=$(replay "$name" "$plan" "$pool" "$work/$name-computing.csv")
    awk -v r="$recorded" -v s="$replayed" 'BEGIN {print 100 * (s / r - 1)}' >> "$work/errors"
    awk -v n="$name" -v m="$(number_of minibatches < "$work/$name-export.json")" -v r="$recorded" -v s="$replayed" -v d="$modelled" \
      -v o="$(sed -n 's/^emulation: \([0-9]* of [0-9]*\) actions.*/\1/p' "$work/$name.txt")" \
      'BEGIN {printf "| %s | %d | %.3f | %.3f | %+.2f %% | %.3f | %+.2f %% | %s |\n", n, m, r, s, 100 * (s / r - 1), d, 100 * (d / r - 1), o}'
  done
  echo
  awk '{e = $1 < 0 ? -$1 : $1; s += e; if (e > w) w = e} END {printf "Replayed: mean error %.2f %%, worst %.2f %%, of %d plans.\n", s / NR, w, NR}' "$work/errors"
}

record_run() { # NAME PLAN CLUSTER DATA EPOCHS: runs/NAME, NAME.csv, NAME-export.json
  local ranks
  ranks=$(($(grep -o '"[a-z]*:[0-9]*"' "$2" | sort -u | wc -l) + $(grep -c '^nodes = ' "$2" || true)))
  mpirun --oversubscribe -n "$ranks" "$build/bin/hetpipe" train --plan "$2" --cluster "$3" --profile "$work/profile.toml" \
    --data "$4" --output "$work/runs/$1" --epochs "$5" --learning-rate 0.01 --evaluate-every 0 > "$work/$1.txt" 2>&1 ||
    { tail -n 20 "$work/$1.txt" >&2; die "training $1 failed"; }
  "$build/bin/hetpipe" trace export "$work/runs/$1" --durations "$work/$1.csv" --json > "$work/$1-export.json"
}

replay() { # NAME PLAN CLUSTER DURATIONS: prints seconds
  "$build/bin/hetpipe" simulate --cluster "$3" --profile "$work/profile.toml" --plan "$2" --durations "$4" --json > "$work/$1-replay.json"
  sed -n '/"replay"/,$p' "$work/$1-replay.json" | number_of seconds
}
