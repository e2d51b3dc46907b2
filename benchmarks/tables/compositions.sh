# SPDX-License-Identifier: Apache-2.0
# The table compositions, sourced by benchmarks/run: every combination of schedule, weights and synchronisation that makes sense, by the
# time that it takes to a target, in simulated time (docs/simulated-time.md), on three pools; and the plan that the search makes for each of
# them. SEEDS, MODEL, TARGET, EPOCHS, POOLS: other ones. An interrupted measurement continues where it stopped.

# The names that hetpipe plan knows for an option.
names_of_option() {
  { "$build/bin/hetpipe" plan --cluster "$pools/equal.toml" --profile "$work/profile.toml" "--$1" none 2>&1 || true; } |
    sed -n 's/.*(known: \([^)]*\)).*/\1/p' | head -n 1 | tr -d ,
}

# composition_plan OPTION...: a plan of schedule, weights and sync.
composition_plan() {
  "$build/bin/hetpipe" plan --cluster "$pools/$pool.toml" --profile "$work/profile.toml" --minibatch 32 --schedule "$schedule" --weights "$weights" \
    --sync "$sync" "$@" --output "$file" > "$file.log" 2>&1
}

# composition_race OUTPUT POOL SEEDS OPTION... of the plans in `list`
composition_race() {
  local output=$1 pool=$2 seeds=$3
  shift 3
  "$build/bin/hetpipe" compare --cluster "$pools/$pool.toml" --profile "$work/profile.toml" --data "$data" --plans "$(IFS=,; echo "${list[*]}")" \
    --seeds "$seeds" --epochs "$epochs" --target-accuracy "$target" --evaluations "$evaluations" --clock simulated "$@" --output "$output" \
    -- --transport threads --trace off --lr-schedule polynomial --lr-warmup "$(awk -v e="$epochs" 'BEGIN {print e / 10}')" > "$output.log" 2>&1 < /dev/null || [ $? = 4 ] || { tail -n 20 "$output.log" >&2; die "a training failed"; } # 4: it diverged
}

# take NAME@OPTIMIZER@RATE: that training, to `list` and `of`.
take() {
  list+=("$plans/$1.toml")
  of+=(--learning-rate "$1=${1##*@}")
  [[ $1 == *@adam@* ]] || return 0
  # Predictions go along Adam's state, which is not damped.
  if predicts "$plans/$1.toml"; then of+=(--of "$1:betas=0.8,0.95"); else of+=($(damped_adam "$1")); fi
}

# predicts PLAN: by the first line of its simulation, "MODEL under SYSTEM (SCHEDULE, WEIGHTS, SYNC)".
predicts() {
  "$build/bin/hetpipe" simulate --cluster "$pools/$pool.toml" --profile "$work/profile.toml" --plan "$1" 2> /dev/null |
    grep -E ' under .* \([^,]+, (predicted|bellwether), ' > /dev/null
}

# training_of PLAN: what makes a training of the plan another than that of another plan. Where every virtual worker has one stage, the order of
# its passes has no influence on their results, nor have weights that are those of the next update: such plans differ by their name alone.
training_of() {
  local plan=$1
  if [ "$(grep -c '^\[\[virtual_worker\]\]' "$plan")" != "$(grep -c '^\[\[virtual_worker.stage\]\]' "$plan")" ] ||
    grep -E '^weights = "(recompute|mixed|two-versions)"' "$plan" > /dev/null; then
    cat "$plan"
    return
  fi
  grep -vE '^(system|schedule|weights|predicted) = |^samples_factor|^throughput|^bottleneck' "$plan"
  ! predicts "$plan" || echo predicts
}

run_compositions() {
  build_targets hetpipe
  local pools=benchmarks/compositions all_pools=${POOLS:-equal mixed islands} model=${MODEL:-lenet} data=fashion-mnist epochs=${EPOCHS:-3} target=${TARGET:-0.87}
  local evaluations=20 seeds=${SEEDS:-1,2,3} ways="sgd-momentum=0.01 sgd-momentum=0.03 sgd-momentum=0.1 adam=0.00375 adam=0.0075 adam=0.015" way pool schedule weights sync name rate file plans list of best row seconds seed hash
  local schedules all_weights syncs
  if [ $trial = yes ]; then
    data=$work/pictures seeds=1 epochs=1 target=0.01 evaluations=1 ways="sgd-momentum=0.01 adam=0.0075" all_pools=mixed
    make_pictures "$data" 512 28
  fi
  [ -f "$work/profile.toml" ] || "$build/bin/hetpipe" profile --fresh --model "$model" --data "$data" --device cpu --threads 1 --minibatch 8,16,32 \
    --output "$work/profile.toml" > "$work/profile.log" 2>&1
  schedules=$(names_of_option schedule) all_weights=$(names_of_option weights) syncs=$(names_of_option sync)
  [ $trial = no ] || schedules="continuous-1f1b gpipe" all_weights="stash one-version" syncs="wsp all-reduce"
  echo "$model on $(basename "$data") to $target test accuracy; minibatches of 32 of each virtual worker. Each combination has the plan that hetpipe plan makes for it"
  echo "(with --policy search, then --in-flight 1, where there is no other), and the best of these optimizers and rates by seed 1: ${ways// /, } (momentum 0.9, updates of virtual workers added up;"
  echo "adam: betas 0.8 and 0.95, damping 0.95 in six directions (none where weights are predicted), their sum over the root of their number; outer: their mean); rates rise over a tenth of the training and fall to 0. search: the plan"
  echo "that hetpipe plan --policy search makes. Seconds to the target are simulated, mean over seeds $seeds; -: not in $epochs epochs."
  for pool in $all_pools; do
    plans=$work/plans-$pool
    mkdir -p "$plans"
    list=() of=()
    local -A first=() same=()
    for name in $(for schedule in $schedules; do for weights in $all_weights; do for sync in $syncs; do echo "$schedule+$weights+$sync"; done; done; done) search; do
      file=$plans/$name.toml
      if [ ! -f "$file" ] && [ ! -f "$file.refused" ]; then
        IFS=+ read -r schedule weights sync <<< "$name"
        if [ "$name" = search ]; then
          "$build/bin/hetpipe" plan --cluster "$pools/$pool.toml" --profile "$work/profile.toml" --policy search --output "$file" > "$file.log" 2>&1 || die "no plan by search"
        else
          # By the planner of the combination's system; by the search, of pipelines or of single devices, where that cannot have it.
          composition_plan || composition_plan --policy search || composition_plan --policy search --in-flight 1 || mv "$file.log" "$file.refused"
        fi
      fi
      [ -f "$file" ] || continue
      # Trained once, under the name that is first; the search's is a row in any case.
      hash=$([ "$name" = search ] && echo search || training_of "$file" | md5sum | cut -d ' ' -f 1)
      if [ -n "${first[$hash]:-}" ]; then
        same[${first[$hash]}]+="; ${name//+/, }"
        continue
      fi
      first[$hash]=$name
      for way in $ways; do
        sed -e "s/^optimizer = .*/optimizer = \"${way%=*}\"/" -e "s/^scale = \"\(sum\|root\)\"/scale = \"$([ "${way%=*}" = adam ] && echo root || echo sum)\"/" \
          "$file" > "$plans/$name@${way/=/@}.toml"
        take "$name@${way/=/@}"
      done
    done
    composition_race "$work/tuning-$pool" "$pool" 1 "${of[@]}"
    local all=("${list[@]}")
    list=() of=()
    for file in "${all[@]}"; do
      name=$(basename "$file" .toml)
      seconds=$(reached "$work/tuning-$pool/runs/$name-seed-1" seconds)
      [ -z "$seconds" ] || echo "${name%%@*} ${name#*@} $seconds"
    done | sort -k 1,1 -k 3,3g | awk '!seen[$1]++' > "$work/best-$pool"
    while read -r name rate _; do
      take "$name@$rate"
    done < "$work/best-$pool"
    [ "${#list[@]}" -gt 0 ] || die "nothing reaches the target on $pool"
    composition_race "$work/race-$pool" "$pool" "$seeds" "${of[@]}"
    echo
    echo "## $pool"
    echo
    echo "| schedule | weights | sync | optimizer, rate | seconds to target, by seed | mean | of the best |"
    echo "|---|---|---|---|---|---|---|"
    while read -r name rate _; do
      row=""
      for seed in ${seeds//,/ }; do row+=" $(reached "$work/race-$pool/runs/$name@$rate-seed-$seed" seconds | grep . || echo -)"; done
      echo "$name $rate$row"
    done < "$work/best-$pool" | awk '
      { n = 0; sum = 0; list = ""; for (i = 3; i <= NF; ++i) { list = list (list == "" ? "" : ", ") ($i == "-" ? "-" : sprintf("%.3g", $i)); if ($i != "-") { sum += $i; ++n } }
        sub("@", ":", $2); print (n == NF - 2 ? sum / n : "inf"), $1, $2, list }' | sort -g | awk '
      { if (NR == 1) best = $1; name = $2; gsub(/\+/, " | ", name); if (name == "search") name = "search | | "
        rest = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", rest)
        printf "| %s | %s | %s | %s | %s |\n", name, $3, rest, $1 == "inf" ? "-" : sprintf("%.3g", $1), $1 == "inf" ? "-" : sprintf("%.2f", $1 / best) }'
    echo
    for name in $(printf '%s\n' "${!same[@]}" | sort); do
      echo "The same training as ${name//+/, }: ${same[$name]#; }."
      echo
    done
    echo "Refused, or without a plan: $(find "$plans" -name '*.refused' | wc -l) of $(wc -w <<< "$schedules") x $(wc -w <<< "$all_weights") x $(wc -w <<< "$syncs"); not at the target with any rate: $(comm -23 \
      <(for file in "${all[@]}"; do basename "$file" .toml | sed 's/@.*//'; done | sort -u) <(cut -d ' ' -f 1 "$work/best-$pool" | sort -u) | paste -sd , | sed 's/,/, /g; s/^$/none/')."
  done
}
