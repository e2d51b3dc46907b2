# SPDX-License-Identifier: Apache-2.0
# Tables that one program measures, sourced by benchmarks/run.

# reached RUN KEY: what the run had taken when it reached the target; empty if it did not.
reached() { awk -F '[:,]' -v key="\"$2\"" '/"reached": true/ {inside = 1} inside && index($0, key) {print $2 + 0; exit}' "$1/result.json" 2> /dev/null || true; }

# damped_adam NAME: options of hetpipe compare that train this plan with what adam has where updates come late.
damped_adam() { printf -- '--of %s\n' "$1:betas=0.8,0.95" "$1:damping=0.95" "$1:damped-directions=6"; }

python=${TORCH_PYTHON:-$HOME/.cache/hetpipe-bench/torch/bin/python}
run_cpu_step() {
  if [ $trial = yes ] && ! "$python" -c 'import torch' 2> /dev/null; then
    build_targets bench_cpu_step bench_stand_in
    echo "No PyTorch at $python: hetpipe itself stands in for it."
    echo
    "$build/bin/bench_cpu_step" $smallest "$raw" "$build/bin/bench_stand_in"
    return
  fi
  [ -x "$python" ] || die "no Python at $python. Make one: python3 -m venv FOLDER && FOLDER/bin/pip install torch; then TORCH_PYTHON=FOLDER/bin/python."
  build_targets bench_cpu_step
  # The peer's allocator keeps its memory, as ours does: fresh pages would cost it more than some layers.
  "$build/bin/bench_cpu_step" $smallest "$raw" env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE MALLOC_MMAP_MAX_=0 \
    MALLOC_TRIM_THRESHOLD_=100000000000 "$python" benchmarks/torch_step.py 2> "$work/peer.log"
}

run_cpu_kernels() {
  build_targets bench_cpu_kernels
  if [ $trial = yes ]; then
    "$build/bin/bench_cpu_kernels" $smallest "$raw"
    return
  fi
  [ -x "$python" ] || die "no Python at $python, see benchmarks/README.md."
  "$build/bin/bench_cpu_kernels" "$raw" env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE MALLOC_MMAP_MAX_=0 \
    MALLOC_TRIM_THRESHOLD_=100000000000 "$python" benchmarks/torch_kernels.py
}

run_cpu_layers() {
  build_targets bench_cpu_layers
  local peer=() threads
  if "$python" -c 'import torch' 2> /dev/null; then
    peer=(env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 "$python"
      benchmarks/torch_layers.py)
  elif [ $trial = yes ]; then
    echo "No PyTorch at $python: hetpipe is measured alone."
    echo
  else
    die "no PyTorch at $python: see cpu-step."
  fi
  echo "Forward and backward of one layer, in ms: median and quartiles of 9 turns of 0.1 s, the two sides in turns. The ratio is"
  echo "the median of the pairs; the goal is at most 1.00."
  echo
  for threads in 1 2; do
    "$build/bin/bench_cpu_layers" $smallest "${raw%.json}-$threads.json" $threads "${peer[@]}"
  done
}

run_push_pull() {
  build_targets bench_push_pull
  local workers servers mebibytes
  echo "Bandwidth in GB/s, median and quartiles of 20 rounds. In every round push, pull, both together; the same bytes between the"
  echo "same ranks with plain MPI (Isend/Irecv/Waitall, buffers touched before); and the servers' additions for such a push alone,"
  echo "of arrays of the same sizes in the same type of memory: no messages, the workers asleep. A push ends when all servers have"
  echo "added all of it and the worker knows, a pull when the snapshot is in the worker's buffer. Ratios are the medians of the"
  echo "rounds. The goal is 0.90 of MPI (\"yes\") or, where adding alone is slower than MPI, 0.90 of that (\"of memory\")."
  echo
  echo "| workers + servers | per worker | operation | hetpipe GB/s | MPI GB/s | adding alone GB/s | of MPI | of adding alone | goal met |"
  echo "|---|---|---|---|---|---|---|---|---|"
  while read -r workers servers mebibytes; do
    mpirun --oversubscribe -n $((workers + servers)) "$build/bin/bench_push_pull" $smallest \
      "${raw%.json}-$workers-$servers-$mebibytes.json" "$workers" "$servers" "$mebibytes" < /dev/null
  done <<< "$(sized $'1 1 64\n1 1 256\n2 2 64\n2 2 256' '2 2 1')"
  echo
  echo "Between processes of one machine hetpipe sends no push: the server adds it from the worker's memory (two reads and a write for"
  echo "each weight, another read for each further worker), and the worker copies the snapshot from the server's. MPI copies through"
  echo "shared memory. Waiting ranks sleep between two checks (1/48 of the time they have waited), where MPI polls."
}

run_staging() {
  build_targets bench_staging
  echo "Messages from the memory of one rank's device to that of another's, through host memory, between two processes of one"
  echo "machine, on the CPU with streams and memory like a GPU's (\`--device offload\`): seconds until the last message has arrived"
  echo "and the sender knows, and bandwidth; median and quartiles of 9. Ahead: messages that may be in transit at once."
  local kibibytes
  for kibibytes in $(sized "0 512" 512); do
    echo
    mpirun --oversubscribe -n 2 "$build/bin/bench_staging" $smallest offload "$kibibytes"
  done
}

run_pipedream() { # PIPEDREAM_CHECKOUT: a checkout of its repository; PIPEDREAM_PYTHON: a Python with numpy
  if [ $trial = yes ] && [ ! -d "${PIPEDREAM_CHECKOUT:-}/optimizer" ]; then
    pipedream_without_checkout
    return
  fi
  [ -d "${PIPEDREAM_CHECKOUT:-}/optimizer" ] ||
    die "no PIPEDREAM_CHECKOUT. Clone github.com/msr-fiddle/pipedream and name the folder."
  [ -d "${PIPEDREAM_PROFILES:=../shared/data/profiles/pipedream}" ] ||
    die "no profiles at $PIPEDREAM_PROFILES. Name their folder in PIPEDREAM_PROFILES."
  build_targets bench_pipedream_optimizer
  echo "Seconds per minibatch of the partition (the published optimizer's own objective, activation transfers counted) and the"
  echo "time from the profile's file to the partition, in turns: medians of ${REPETITIONS:-5}; the ratios of time and of CPU time (both"
  echo "sides have one thread), each with the least and the most. Goals: an objective no larger, a ratio of at least 20."
  echo
  [ $trial = no ] || export REPETITIONS=1 CASES=1
  "${PIPEDREAM_PYTHON:-python3}" benchmarks/pipedream_published.py "$PIPEDREAM_CHECKOUT" \
    "$build/bin/bench_pipedream_optimizer" "$PIPEDREAM_PROFILES" "$raw"
}

pipedream_without_checkout() { # in a trial: our side alone, on a chain of four layers
  build_targets bench_pipedream_optimizer
  local node
  for node in 1 2 3 4; do
    echo "node$node -- Layer -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=1000.0, parameter_size=4000.0"
  done > "$work/graph.txt"
  printf '\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n' >> "$work/graph.txt"
  echo "No PIPEDREAM_CHECKOUT: the published side is left out. Ours, objective, time and CPU time in seconds:"
  echo
  "$build/bin/bench_pipedream_optimizer" "$work/graph.txt" 2 1e9
}

run_idle() {
  build_targets bench_idle
  mpirun --oversubscribe -n 5 "$build/bin/bench_idle" "$raw" $(sized "5 7" "0.2 1")
}

run_simulator() {
  build_targets bench_simulator_speed
  "$build/bin/bench_simulator_speed" $smallest "$raw" "$(sized 5 1)"
}

run_planner_speed() {
  build_targets hetpipe bench_planner_speed
  "$build/bin/hetpipe" profile --model gpt2 --sample 1024 --classes 50257 --estimate --output "$work/gpt2.toml" > "$work/profile.log"
  "$build/bin/bench_planner_speed" $smallest "$raw" "$(sized "${REPETITIONS:-5}" 1)" cluster-configs "$work/gpt2.toml"
  echo
  echo "ResNet-152 and VGG-19 as measured; GPT-2 (124 M, its embedding tied to its last layer) by flops and bytes alone."
}

run_prediction_error() { # PREDICTION_DATA: another data set
  build_targets bench_prediction_error
  echo "LeNet on Fashion-MNIST, minibatches of 64, trained serially; at each point ten predictions W^ = W + s d, one update apart,"
  echo "made by the optimizer as in SpecTrain's and XPipe's stages, and compared with W after s more updates: root mean square"
  echo "over all parameters, median and quartiles of the ten. sgd-momentum (0.01, 0.9): d = -rate v, SpecTrain's;"
  echo "adam (0.001): d = -rate m^ / (sqrt(v^) + eps), XPipe's. Newest: W itself instead of the prediction. Ratio: predicted /"
  echo "newest, pair by pair; below 1 the prediction is closer, which is the goal everywhere. Loss: of one minibatch there."
  echo
  [ $trial = no ] || make_pictures "$work/data" 1024 28
  "$build/bin/bench_prediction_error" $smallest "$raw" "$(sized "${PREDICTION_DATA:-fashion-mnist}" "$work/data")"
}

run_estimated_runs() {
  local runs=${ESTIMATED_RUNS:-../shared/data/measured/vtrain/calibration.csv}
  if [ ! -f "$runs" ]; then
    $(sized die skip) "no measured runs at $runs. Name their table: ESTIMATED_RUNS=FILE."
  fi
  build_targets bench_estimated_runs
  "$build/bin/bench_estimated_runs" $smallest "$raw" "$runs"
}

run_measured_runs() {
  local runs=${MEASURED_RUNS:-../shared/data/measured/sailor}
  if [ ! -f "$runs/measured.csv" ]; then
    $(sized die skip) "no measured runs at $runs. Name their folder: MEASURED_RUNS=FOLDER."
  fi
  build_targets bench_measured_runs
  "$build/bin/bench_measured_runs" "$raw" "$runs"
}
