# SPDX-License-Identifier: Apache-2.0
# The table convergence, sourced by benchmarks/run: what each system learns, by plans that differ in the system alone, with one
# optimizer and one learning rate for all. SEEDS changes the seeds, MODELS leaves models out; an interrupted run continues where
# it stopped. TEXT: a file of text for the character model, which is left out without it.

convergence_settings() { # model, learning rate, epochs
  if [ $trial = yes ]; then
    printf 'lenet-bn 0.001 1\ngnmt-tiny 0.001 0.1\n'
    return
  fi
  cat << 'SETTINGS'
lenet-bn 0.01 2
lenet-bn 0.1 1
gnmt-tiny 0.003 1
resnet-8 0.01 1
SETTINGS
}

run_convergence() {
  build_targets hetpipe
  local model rate epochs data optimizer name pictures=fashion-mnist text=${TEXT:-} seeds=${SEEDS:-1,2,3}
  local systems="synchronous pipedream pipedream-2bw vanilla spectrain xpipe timeprest timeprest-mixed hetpipe-d0 hetpipe-d4"
  if [ $trial = yes ]; then
    pictures=$work/pictures text=$work/text seeds=1
    systems="synchronous hetpipe-d0"
    make_pictures "$pictures" 128 28
    head -c 30000 /dev/urandom | base64 -w 0 > "$text"
  fi
  echo "One virtual worker of four stages, minibatches of 32 (HetPipe: two of two stages and 16 each, their updates averaged);"
  echo "sgd-momentum (0.9) on Fashion-MNIST, Adam on text; no schedule of rates, no clipping. Test accuracy at the end, mean"
  echo "(least .. most) over seeds $seeds. 'synchronous' is DAPPLE's schedule: one update per minibatch of 4 micro-batches."
  echo "A claim 'a within S points of b' (S = 0: 'at least') holds if a's worst run is at most S points below b's best, does not"
  echo "hold if a's best run is more than S points below b's worst, and is otherwise not distinguished. Speeds mean nothing: the"
  echo "stages share two cores with other programs."
  while read -r model rate epochs; do
    [[ " ${MODELS:-$model} " == *" $model "* ]] || continue
    data=$pictures optimizer=sgd-momentum name=$model-$rate
    local textbook=()
    if [ "$model" = gnmt-tiny ]; then
      [ -n "$text" ] || { echo; echo "$model: no TEXT given, left out."; continue; }
      data=text:$text optimizer=adam
      textbook=(--betas "0.9,0.999" --damping 0 --lr-schedule constant --lr-warmup 0)
    fi
    [ -f "$work/$model.toml" ] || "$build/bin/hetpipe" profile --fresh --model "$model" --data "$data" --device cpu --threads 1 \
      --minibatch 8,16,32 --output "$work/$model.toml" > "$work/profile.log" 2>&1
    [ -d "$work/plans-$model" ] ||
      benchmarks/plans "$build/bin/hetpipe" benchmarks/convergence/pool.toml "$work/$model.toml" "$optimizer" 32 \
        "$work/plans-$model" $systems
    "$build/bin/hetpipe" compare --cluster benchmarks/convergence/pool.toml --profile "$work/$model.toml" --data "$data" \
      --plans "$(ls "$work/plans-$model"/*.toml | paste -sd ,)" --seeds "$seeds" --epochs "$epochs" --evaluations 2 \
      --learning-rate "$rate" --output "$work/$name" -- --trace off "${textbook[@]}" > "$work/$name.log" 2>&1 < /dev/null ||
      { tail -n 20 "$work/$name.log"; [ $trial = no ] || die "a training failed: $work/$name.log"; }
    echo
    echo "## $model, $optimizer, learning rate $rate, $epochs epochs"
    echo
    sed -n '/^|/p' "$work/$name/compare.md" | cut -d '|' -f 1-3,8-10 | sed 's/$/|/'
    echo
    benchmarks/convergence/claims "$work/$name/compare.md"
  done < <(convergence_settings)
}
