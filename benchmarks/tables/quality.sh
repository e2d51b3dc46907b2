# SPDX-License-Identifier: Apache-2.0
# The table quality, sourced by benchmarks/run: what training learns with defaults where many updates are in flight, against serial
# training with a tuned rate, after as many epochs; in simulated time (docs/simulated-time.md). SEEDS, MODELS, EPOCHS: other ones; TEXT: a
# file of text for gpt2-tiny, which is left out without it. An interrupted measurement continues where it stopped.

# quality_plan NAME CLUSTER OPTION...: a plan of the model.
quality_plan() {
  local name=$1 cluster=$2 file=$plans/$1.toml
  shift 2
  "$build/bin/hetpipe" plan --cluster "$work/$cluster.toml" --profile "$profile" --minibatch 32 "$@" --output "$file" > "$plans/$name.log" 2>&1 ||
    { tail -n 5 "$plans/$name.log" >&2; die "no plan $name"; }
  sed -i -e '/^predicted = /d; /^\[predicted\]/,$d' "$file"
}

# quality_cluster NAME NODES DEVICES: nodes of equal devices, and one without for the server.
quality_cluster() {
  local i list=""
  for ((i = 0; i < $3; i++)); do list+="${list:+, }\"core\""; done
  printf '%s\n' 'format = 1' '[device.core]' 'memory = 8_000_000_000' 'emulate = { slowdown = 1.0 }' \
    '[[node]]' "name = \"n[0-$(($2 - 1))]\"" "devices = [$list]" '[[node]]' 'name = "server"' 'devices = []' \
    '[link.intra_node]' 'bandwidth = 10e9' '[link.inter_node]' 'bandwidth = 10e9' > "$work/$1.toml"
}

# quality_race OUTPUT CLUSTER EPOCHS SEEDS PLAN... -- OPTION...
quality_race() {
  local output=$1 cluster=$2 epochs=$3 seeds=$4 list=()
  shift 4
  while [ "$1" != -- ]; do list+=("$1"); shift; done
  shift
  "$build/bin/hetpipe" compare --cluster "$work/$cluster.toml" --profile "$profile" --data "$data" --plans "$(IFS=,; echo "${list[*]}")" \
    --seeds "$seeds" --epochs "$epochs" --evaluations 1 --clock simulated --output "$output" "$@" -- --transport threads --trace off \
    > "$output.log" 2>&1 < /dev/null || [ $? = 4 ] || { tail -n 20 "$output.log" >&2; die "a training failed"; } # 4: it diverged
}

# quality_of OUTPUT NAME SEED: what it ended with: accuracy in percent, or the loss of a text; empty if it diverged.
quality_of() {
  local key=test_accuracy by=100
  [ "$model" != gpt2-tiny ] || key=test_loss by=1
  awk -F '[:,]' -v key="\"$key\"" -v by=$by '/"evaluations"/ {exit} index($0, key) && $2 != " null" {printf "%.4f", $2 * by; exit}' \
    "$1/runs/$2-seed-$3/result.json" 2> /dev/null || true
}

# plainly OPTIMIZER@RATE@SCHEDULE EPOCHS: options of hetpipe compare that train this plan with the textbook's optimizer.
plainly() {
  local optimizer rate schedule warmup=0
  IFS=@ read -r optimizer rate schedule <<< "$1"
  [ "$schedule" = constant ] || warmup=$(awk -v e="$2" 'BEGIN {print e / 20}')
  printf -- '%s\n' --learning-rate "$1=$rate" --of "$1:lr-schedule=$schedule" --of "$1:lr-warmup=$warmup"
  [ "$optimizer" != adam ] || printf -- '--of %s\n' "$1:betas=0.9,0.999" "$1:damping=0"
}

# quality_syncs WHICH: it, and where that is the default, what the planner chose: for d0, d4 and the pipeline, where they differ.
quality_syncs() {
  local one chosen
  [ "$1" = default ] || { echo "$1"; return; }
  chosen=$(for one in d0 d4 pipeline; do grep '^sync = ' "$plans/$one-default.toml" || echo 'sync = "wsp"'; done | cut -d '"' -f 2)
  [ "$(sort -u <<< "$chosen" | wc -l)" -gt 1 ] || chosen=${chosen%%$'\n'*}
  echo "default: $(paste -sd ' ' <<< "$chosen")"
}

run_quality() {
  build_targets hetpipe
  local model epochs data profile plans pictures=fashion-mnist text=${TEXT:-} seeds=${SEEDS:-1,2,3} models=${MODELS:-mlp lenet resnet-8 gpt2-tiny}
  local all_epochs=${EPOCHS:-1 5} layers name rate schedule optimizer one best seed value list of better race sync output syncs="default wsp" given
  local -A rates=([sgd-momentum]="0.003 0.01 0.03 0.1" [adam]="0.0003 0.001 0.003 0.01")
  local schedules="constant polynomial"
  if [ $trial = yes ]; then
    pictures=$work/pictures seeds=1 models=mlp all_epochs=1 schedules=constant
    rates=([sgd-momentum]=0.01 [adam]=0.001)
    make_pictures "$pictures" 512 28
  fi
  quality_cluster serial 1 1
  quality_cluster d0 4 1
  quality_cluster d4 4 1
  echo "Test accuracy in percent (gpt2-tiny: test loss in nats), mean over seeds $seeds. Serial: the best of sgd-momentum at"
  echo "${rates[sgd-momentum]// /, } and adam at ${rates[adam]// /, }, each with a rate that is constant and one that falls to 0 linearly after a"
  echo "warm-up of a twentieth (polynomial), by seed 1. The others: defaults, but for --in-flight and, where it is named, --sync: d0, d4: four virtual workers with four"
  echo "minibatches in flight, D = 0 and 4; pipeline: one of eight stages (as many as there are layers, where these are fewer) with eight."
  echo
  echo "| model | epochs | serial | its optimizer, rate | sync | d0 | d4 | pipeline |"
  echo "|---|---|---|---|---|---|---|---|"
  for model in $models; do
    data=$pictures
    if [ "$model" = gpt2-tiny ]; then
      [ -n "$text" ] || { echo "| gpt2-tiny | - | no TEXT given | | | | | |"; continue; }
      data=text:$text
    fi
    profile=$work/$model.toml plans=$work/plans-$model
    mkdir -p "$plans"
    [ -f "$profile" ] || "$build/bin/hetpipe" profile --fresh --model "$model" --data "$data" --device cpu --threads 1 --minibatch 32 \
      --output "$profile" > "$work/profile.log" 2>&1
    layers=$(grep -c '^\[\[layer\]\]' "$profile")
    quality_cluster pipeline 1 $((layers < 8 ? layers : 8))
    quality_plan serial serial --system data-parallel
    for sync in $syncs; do
      given=()
      [ "$sync" = default ] || given=(--sync "$sync")
      quality_plan "d0-$sync" d0 "${given[@]}" --policy np --in-flight 4 --virtual-workers 4
      quality_plan "d4-$sync" d4 "${given[@]}" --policy np --in-flight 4 --virtual-workers 4 --clock-distance 4
      quality_plan "pipeline-$sync" pipeline "${given[@]}" --policy np --in-flight 8 --virtual-workers 1
    done
    for epochs in $all_epochs; do
      list=() of=()
      for optimizer in sgd-momentum adam; do
        for rate in ${rates[$optimizer]}; do
          for schedule in $schedules; do
            name=$optimizer@$rate@$schedule
            sed "s/^optimizer = .*/optimizer = \"$optimizer\"/" "$plans/serial.toml" > "$plans/$name.toml"
            list+=("$plans/$name.toml")
            of+=($(plainly "$name" "$epochs"))
          done
        done
      done
      quality_race "$work/tuning-$model-$epochs" serial "$epochs" 1 "${list[@]}" -- "${of[@]}"
      best=""
      for one in "${list[@]}"; do
        name=$(basename "$one" .toml)
        value=$(quality_of "$work/tuning-$model-$epochs" "$name" 1)
        [ -n "$value" ] || continue
        better=$(awk -v a="$value" -v b="${best%% *}" -v text="$([ "$model" = gpt2-tiny ] && echo 1 || echo 0)" \
          'BEGIN {print b == "" || (text ? a < b : a > b)}')
        [ "$better" = 0 ] || best="$value $name"
      done
      [ -n "$best" ] || die "every serial training of $model diverged"
      name=${best#* }
      IFS=@ read -r optimizer rate schedule <<< "$name"
      of=($(plainly "$name" "$epochs"))
      race=$work/race-$model-$epochs
      quality_race "$race-serial" serial "$epochs" "$seeds" "$plans/$name.toml" -- "${of[@]}"
      for sync in $syncs; do
        for one in d0 d4 pipeline; do quality_race "$race-$one-$sync" "$one" "$epochs" "$seeds" "$plans/$one-$sync.toml" --; done
        for one in "serial:$name" "d0:d0-$sync" "d4:d4-$sync" "pipeline:pipeline-$sync"; do
          output=$race-serial
          [ "${one%%:*}" = serial ] || output=$race-${one#*:}
          for seed in ${seeds//,/ }; do echo "${one%%:*} $(quality_of "$output" "${one#*:}" "$seed")"; done
        done | awk -v model="$model" -v epochs="$epochs" -v how="$optimizer, $rate, $schedule | $(quality_syncs "$sync")" -v text="$([ "$model" = gpt2-tiny ] && echo 1 || echo 0)" '
          { if (NF == 2) { sum[$1] += $2; ++runs[$1] } else ++lost[$1] }
          function shown(name) {
            if (lost[name]) return lost[name] " diverged"
            return sprintf(text ? "%.3f" : "%.2f", sum[name] / runs[name]) (name == "serial" ? "" : sprintf(text ? " (%+.3f)" : " (%+.2f)", sum[name] / runs[name] - sum["serial"] / runs["serial"]))
          }
          END { printf "| %s | %s | %s | %s | %s | %s | %s |\n", model, epochs, shown("serial"), how, shown("d0"), shown("d4"), shown("pipeline") }'
      done
    done
  done
}
