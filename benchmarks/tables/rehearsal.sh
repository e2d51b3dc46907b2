# SPDX-License-Identifier: Apache-2.0
# The table rehearsal, sourced by benchmarks/run: the headline of HetPipe's paper, in simulated time (docs/simulated-time.md): a
# small network learns, by the clock of VGG-19 and of ResNet-152 on the paper's testbed. Every plan has the same network, minibatch
# of 32 for each device or virtual worker, rates that fall to 0, and is tuned: optimizer, rate, and length of the training. SEEDS: of the race;
# MODEL, EPOCHS (lengths to choose from), TARGET, CLOCKS, DISTANCES: other ones. A trial has fewer of all.

# like PLAN MODEL LAYERS: a plan of the same structure for the model, its layers dealt out evenly.
like() {
  awk -v model="$2" -v n="$3" '
    NR == FNR { if (/^\[\[virtual_worker\]\]/) ++w; if (/^\[\[virtual_worker.stage\]\]/) ++stages[w]; next }
    /^\[predicted\]/ { exit }
    /^predicted = / { next }
    /^model = / { print "model = \"" model "\""; next }
    /^\[\[virtual_worker\]\]/ { ++v; k = 0 }
    /^layers = / { printf "layers = [%d, %d]\n", int(k * n / stages[v]), int((k + 1) * n / stages[v]); ++k; next }
    { print }' "$1" "$1"
}

# candidate CLOCK NAME OPTION...: plans with the options; it becomes CLOCK's NAME if it is predicted to be worth more.
candidate() {
  local clock=$1 name=$2 system made=$work/candidate.toml predicted factor worth best
  shift 2
  rm -f "$made"
  "$build/bin/hetpipe" plan --cluster "$pool" --profile "$profiles/$clock.toml" "$@" --output "$made" > "$work/candidate.log" 2>&1 || return 0
  predicted=$(awk '/^throughput = / {printf "%.1f", $3}' "$made")
  factor=$(awk '/^samples_factor = / {printf "%.2f", $3}' "$made")
  system=$(sed -n 's/^system = "\(.*\)"/\1/p' "$made")
  worth=$(awk -v t="$predicted" -v f="${factor:-1}" 'BEGIN {printf "%.1f", t / f}')
  best=$(cat "$work/clocks/$clock-$name.worth" 2> /dev/null || echo 0)
  echo "| $clock | $name | $* | $system, $(grep -c '^\[\[virtual_worker\]\]' "$made") | $(awk '/^in_flight = / {print $3}' "$made") | $predicted | ${factor:-1} | $worth |" >> "$work/candidates.md"
  if awk -v a="$worth" -v b="$best" 'BEGIN {exit !(a > b)}'; then
    cp "$made" "$work/clocks/$clock-$name.toml"
    echo "$worth" > "$work/clocks/$clock-$name.worth"
  fi
}

# race OUTPUT EPOCHS SEEDS PLAN@OPTIMIZER@RATE...: trains the small network by each plan's clock.
race() {
  local output=$1 epochs=$2 seeds=$3 one name optimizer rate plans=() given=()
  shift 3
  for one; do
    IFS=@ read -r name optimizer rate <<< "$one"
    sed "s/^optimizer = .*/optimizer = \"$optimizer\"/" "$work/small/$name.toml" > "$work/small/$one.toml"
    plans+=("$work/small/$one.toml")
    given+=(--learning-rate "$one=$rate" --of "$one:time-of=$work/clocks/$name.toml" --of "$one:time-profile=$profiles/${name%%-*}.toml")
    [ "$optimizer" = adam ] || continue
    # Predictions go along Adam's state, which is not damped.
    if grep -E '^(system = "(xpipe|spectrain)"|weights = "(predicted|bellwether)")' "$work/small/$one.toml" > /dev/null; then
      given+=(--of "$one:betas=0.8,0.95")
    else
      given+=($(damped_adam "$one"))
    fi
  done
  "$build/bin/hetpipe" compare --cluster "$pool" --profile "$work/profile.toml" --data "$data" --plans "$(IFS=,; echo "${plans[*]}")" \
    "${given[@]}" --seeds "$seeds" --epochs "$epochs" --target-accuracy "$target" --evaluations $((evaluations * epochs)) --clock simulated \
    --output "$output" -- --transport threads --trace off --lr-schedule polynomial --lr-warmup "$(awk -v e="$epochs" 'BEGIN {print e / 10}')" \
    > "$output.log" 2>&1 < /dev/null || [ $? = 4 ] || { tail -n 20 "$output.log" >&2; die "training failed"; } # 4: a rate is too high
}

# ways_of NAME: the optimizers and rates to try.
ways_of() {
  case $1 in
    *-search) echo "${ways[search]}" ;;
    *-bsp) echo "${ways[bsp]}" ;;
    *) echo "${ways[waves]}" ;;
  esac
}

# race_rows < "PLAN SECONDS SAMPLES" of every seed, - where it missed the target: rows of the last table.
race_rows() {
  awk '
    { if (!($1 in seeds)) order[++n] = $1; ++seeds[$1]; list[$1] = list[$1] (seeds[$1] == 1 ? "" : ", ") ($2 == "-" ? "-" : sprintf("%.0f", $2))
      if ($2 != "-") { ++runs[$1]; t[$1] += $2; s[$1] += $3 } }
    $1 ~ /-bsp@/ { bsp = $1 }
    END {
      for (i = 1; i <= n; ++i) {
        name = order[i]; there = runs[name] + 0; mark = there == seeds[name] ? "" : " *"
        printf "| %s | %s | %d of %d |", name, list[name], there, seeds[name]
        if (there == 0) { print " - | - | - | - | - |"; continue }
        time = t[name] / there; samples = s[name] / there
        printf " %.0f%s | %.0f%s |", time, mark, samples, mark
        if (runs[bsp] + 0 == 0) { print " - | - | - |"; continue }
        bt = t[bsp] / runs[bsp]; bs = s[bsp] / runs[bsp]
        if (runs[bsp] != seeds[bsp]) mark = " *"
        printf " %.2f%s | %.2f%s | %.2f%s |\n", time / bt, mark, samples / bs, mark, (time / samples) / (bt / bs), mark
      }
    }'
}

run_rehearsal() {
  build_targets hetpipe
  local pool=cluster-configs/hetpipe-paper.toml profiles=cluster-configs/profiles data=fashion-mnist model=${MODEL:-lenet} all_epochs=${EPOCHS:-2 3 5} epochs
  local target=${TARGET:-0.88} evaluations=10 clocks=${CLOCKS:-vgg19 resnet152} distances=${DISTANCES:-0 4 32} policies="ed hd" placements="default local"
  local -A ways=([bsp]="sgd-momentum@0.1 sgd-momentum@0.3 adam@0.0075 adam@0.015 adam@0.03 adam@0.06"
    [waves]="adam@0.002 adam@0.004 adam@0.0075 adam@0.015"
    [search]="sgd-momentum@0.01 sgd-momentum@0.03 sgd-momentum@0.1 adam@0.001 adam@0.003 adam@0.0075 adam@0.015 adam@0.03")
  local seeds clock distance policy placement name names=() tries how best row seconds samples layers
  seeds=$(sized "${SEEDS:-1,2,3}" 1)
  if [ $trial = yes ]; then
    data=$work/data target=0.01 evaluations=1 all_epochs=1 clocks=vgg19 distances=4 policies=ed placements=local
    ways=([bsp]=sgd-momentum@0.001 [waves]=adam@0.0001)
    make_pictures "$data" 1024 28
  fi
  rm -rf "$work/clocks" "$work/small" "$work/candidates.md"
  mkdir -p "$work/clocks" "$work/small"
  "$build/bin/hetpipe" profile --estimate --model "$model" --data "$data" --output "$work/profile.toml" > "$work/profile.log" 2>&1
  layers=$(grep -c '^\[\[layer\]\]' "$work/profile.toml")
  for clock in $clocks; do
    candidate "$clock" bsp --system data-parallel --shares equal
    for distance in $distances; do
      for policy in $policies; do
        for placement in $placements; do
          candidate "$clock" "d$distance" --system hetpipe --policy "$policy" --placement "$placement" --minibatch 32 --clock-distance "$distance"
        done
      done
      names+=("$clock-d$distance")
    done
    names+=("$clock-bsp")
    [ $trial = yes ] || { candidate "$clock" search --policy search --minibatch 32 && names+=("$clock-search"); }
  done
  for name in "${names[@]}"; do
    like "$work/clocks/$name.toml" "$model" "$layers" > "$work/small/$name.toml"
    ! grep -E '^layers = \[([0-9]+), \1\]' "$work/small/$name.toml" > /dev/null ||
      die "the plan $name has more stages in a virtual worker than $model has layers ($layers). Choose a MODEL of more layers."
  done
  echo "$model on Fashion-MNIST to $target test accuracy by the clock of each plan on the paper's testbed; rates rise over a tenth of the training"
  echo "and fall to 0 linearly. adam: with betas 0.8 and 0.95, and damping 0.95 in six directions (none where weights are predicted). bsp: all devices that hold 32 samples' training, 32 each, as in"
  echo "Horovod. d0, d4, d32: HetPipe with that D and virtual workers' minibatches of 32; of the allocations ($policies) and placements"
  echo "($placements) the one that is predicted to be worth most: samples/s over the factor of samples for late updates and large minibatches."
  echo "search: what --policy search makes of all systems for minibatches of 32."
  echo
  echo "| clock | plan | planned with | system, virtual workers | Nm | samples/s | factor | worth |"
  echo "|---|---|---|---|---|---|---|---|"
  cat "$work/candidates.md"
  echo
  for name in "${names[@]}"; do
    for how in $(ways_of "$name"); do tries+=("$name@$how"); done
  done
  for epochs in $all_epochs; do race "$work/tuning-$epochs" "$epochs" 1 "${tries[@]}"; done
  echo "Samples until the target by optimizer, rate and epochs, seed 1 (-: not in so many epochs); the race uses the best of each:"
  echo
  echo "| plan | samples by epochs: ${all_epochs// /, } | chosen |"
  echo "|---|---|---|"
  local taken=()
  for name in "${names[@]}"; do
    row="" best=""
    for how in $(ways_of "$name"); do
      row+="${row:+; }$how:"
      for epochs in $all_epochs; do
        samples=$(reached "$work/tuning-$epochs/runs/$name@$how-seed-1" samples)
        row+=" ${samples:--}"
        if [ -n "$samples" ] && { [ -z "$best" ] || [ "$samples" -lt "${best%% *}" ]; }; then best="$samples $how $epochs"; fi
      done
    done
    best=${best#* }
    echo "| $name | $row | ${best:+${best% *}, ${best#* } epochs} |"
    [ -z "$best" ] || taken+=("$name@$best")
  done
  for epochs in $all_epochs; do
    tries=()
    for name in "${taken[@]}"; do [ "${name#* }" != "$epochs" ] || tries+=("${name% *}"); done
    [ ${#tries[@]} = 0 ] || race "$work/race-$epochs" "$epochs" "$seeds" "${tries[@]}"
  done
  echo
  echo "The race, seeds $seeds, in simulated time; ratio: of the time of that clock's bsp. It is the product of the other two:"
  echo "samples until the target, and seconds for each sample, both as shares of those of bsp. A star marks what leaves out seeds that missed"
  echo "the target (-): the whole mean is larger by an amount that nobody knows, and so is what it is divided by."
  echo
  echo "| plan | seconds to target, by seed | seeds at the target | mean | samples to target, mean | ratio | of samples | of seconds per sample |"
  echo "|---|---|---|---|---|---|---|---|"
  for clock in $clocks; do
    for name in "${taken[@]}"; do
      [ "${name%%-*}" = "$clock" ] || continue
      for seed in ${seeds//,/ }; do
        row=$work/race-${name#* }/runs/${name% *}-seed-$seed
        seconds=$(reached "$row" seconds) samples=$(reached "$row" samples)
        echo "${name% *} ${seconds:--} ${samples:--}"
      done
    done | race_rows
  done
}
