# SPDX-License-Identifier: Apache-2.0
# The table own-advice, sourced by benchmarks/run. POOLS: names of files of cluster-configs.

run_own_advice() {
  build_targets hetpipe bench_own_advice
  local pool pools=() pairs=()
  read -r -a pools <<< "$(sized "${POOLS:-amp-v100-t4 dapple-a dapple-b dapple-c hetpipe-paper lab-corridor lab-drawer lab-server-room lab-storeroom \
titan-2080-3090 fashion-quickstart hetpipe-paper-scaled local-four-generations local-straggler}" lab-drawer)"
  "$build/bin/hetpipe" profile --model resnet-50 --sample 224x224x3 --classes 1000 --estimate --output "$work/resnet-50.toml" > "$work/profile.log"
  "$build/bin/hetpipe" profile --model gpt2 --sample 1024 --classes 50257 --estimate --output "$work/gpt2.toml" >> "$work/profile.log"
  for pool in "${pools[@]}"; do
    if grep -q '^emulate' "cluster-configs/$pool.toml"; then
      pairs+=("cluster-configs/$pool.toml" tests/profiles/lenet.toml)
    else
      pairs+=("cluster-configs/$pool.toml" "$work/resnet-50.toml")
      [ $trial = yes ] || pairs+=("cluster-configs/$pool.toml" "$work/gpt2.toml")
    fi
  done
  echo "The search over all systems (\`--policy search\`) on pools of \`cluster-configs\`: ResNet-50 and GPT-2 (124 M) by flops and bytes, on emulated"
  echo "pools LeNet as measured on one machine. Worth: samples/s, by time to accuracy over the samples that an accuracy takes. The best that the"
  echo "search finds in the pool without one device (of each kind on each kind of node), that a layer moved across a cut gives, and that any system finds alone:"
  echo "by the search, by its own planner, by a policy. Where minibatches are the planners' own, those of another planner may be larger."
  echo
  "$build/bin/bench_own_advice" $smallest "${pairs[@]}"
}
