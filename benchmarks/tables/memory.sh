# SPDX-License-Identifier: Apache-2.0
# The table memory, sourced by benchmarks/run. EPOCHS: of each run.

# Peak memory over its ledger, the least and the most of a run's ranks. A stage of less than 300 kB, such as one that has the loss
# alone, is left out: what nobody counts is percents of it.
memory_of() { # PLAN POOL PROFILE RUN
  "$build/bin/hetpipe" simulate --cluster "$2" --profile "$3" --plan "$1" --json | sed -n 's/.*"peak_memory": \([0-9]*\).*/\1/p' > "$work/stated"
  sed -n 's/.*"peak_memory": \([0-9]*\).*/\1/p' "$4/result.json" > "$work/measured"
  paste "$work/stated" "$work/measured" | awk '
    NF == 2 && $1 < 300000 {next}
    NF == 2 {r = $2 / $1; if (!n++ || r < least) least = r; if (r > most) most = r; next}
    {bad = 1}
    END {if (bad || !n) exit 1; printf "%.3f .. %.3f\n", least, most}' || die "$1: the run has other ranks than its simulation"
}

# Every system over MPI: what the allocators of its ranks saw against what the plan states, on devices that compute
# when they are told to and on such as work beside their hosts.
run_memory() {
  build_targets hetpipe
  local device pool data minibatch plan name ranks row host
  host=$(hostname)
  data=$work/data minibatch=$(sized 64 16)
  make_pictures "$data" "$(sized 3840 320)" 28
  declare -A rows=()
  for device in cpu offload; do
    pool=$work/$device.toml
    {
      printf 'format = 1\n[device.%s]\nmemory = 4_000_000_000\n[[node]]\nname = "%s"\n' "$device" "$host"
      printf 'devices = ["%s", "%s", "%s", "%s"]\n' $device $device $device $device
      printf '[link.intra_node]\nbandwidth = 1e9\n[link.inter_node]\nbandwidth = 1e9\n'
    } > "$pool"
    "$build/bin/hetpipe" profile --fresh --model resnet-8 --data "$data" --device $device --threads 1 \
      --minibatch "$(sized 4,8,16,32,64 1,4,16)" --output "$work/$device-profile.toml" > "$work/profile.log" 2>&1
    rm -rf "$work/$device-plans"
    benchmarks/plans "$build/bin/hetpipe" "$pool" "$work/$device-profile.toml" sgd-momentum "$minibatch" "$work/$device-plans" \
      hetpipe-d0 hetpipe-d4 spectrain xpipe dapple timeprest timeprest-mixed gpipe pipedream-flush zero-bubble pipedream \
      pipedream-2bw vanilla data-parallel ssp asp
    sed 's/^in_flight = 4/in_flight = 12/' "$work/$device-plans/hetpipe-d0.toml" > "$work/$device-plans/hetpipe-d0-12.toml"
    sed 's/^pull = "newest"/pull = "bound"/' "$work/$device-plans/hetpipe-d4.toml" > "$work/$device-plans/hetpipe-d4-bound.toml"
    for plan in "$work/$device-plans"/*.toml; do
      name=$(basename "$plan" .toml)
      [[ $trial = no || $name =~ ^(hetpipe-d0|gpipe)$ ]] || continue
      ranks=$(($(grep -o '"[^" ]*:[0-9]*"' "$plan" | sort -u | wc -l) + $(grep -c '^nodes = ' "$plan" || true)))
      rm -rf "$work/runs/$name"
      mpirun --oversubscribe -n "$ranks" "$build/bin/hetpipe" train --plan "$plan" --cluster "$pool" --device $device --transport-path staged \
        --profile "$work/$device-profile.toml" --data "$data" --output "$work/runs/$name" --epochs "$(sized "${EPOCHS:-1}" 1)" \
        --learning-rate 0.01 --trace off > "$work/$name.txt" 2>&1 || { tail -n 20 "$work/$name.txt" >&2; die "training $name failed"; }
      rows[$name]+=" $(memory_of "$plan" "$pool" "$work/$device-profile.toml" "$work/runs/$name") |"
    done
  done
  echo "ResNet-8 on noise of 28 x 28 pixels, minibatches of 64, 4 micro-batches or 4 minibatches in flight (hetpipe-d0-12: 12), four"
  echo "ranks and a server where the system has one, as processes over MPI on one machine; plans by [plans](../plans), an evaluation"
  echo "at the end. Peak that a rank's allocator saw over the total of its ledger: the least and the most of a run's ranks. offload:"
  echo "devices that work beside their hosts, two passes ahead, with memory of their own; messages go through page-locked memory."
  echo "With D = 4 the ledger has the waves that a virtual worker may be ahead: hetpipe-d4-bound always keeps them (pull = \"bound\"),"
  echo "hetpipe-d4 only when it is. Stages of less than 300 kB are left out."
  echo
  echo "| plan | cpu | offload |"
  echo "|---|---|---|"
  for name in $(printf '%s\n' "${!rows[@]}" | sort); do echo "| $name |${rows[$name]}"; done
}
