#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# command.sh HETPIPE GOLDEN [--update]: the command as people meet it. Help texts are compared with the
# files of GOLDEN (--update rewrites them); messages and exit codes with what is written here.
set -uo pipefail
hetpipe=$1
golden=$2
update=${3:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

fail() { echo "FAILED: $*"; failed=1; }

compare() { # NAME ARGUMENT...: standard output against GOLDEN/NAME.txt
  local name=$1; shift
  if ! "$hetpipe" "$@" > "$folder/out" 2> "$folder/err"; then fail "hetpipe $* ended with an error: $(cat "$folder/err")"; fi
  if [ "$update" = --update ]; then cp "$folder/out" "$golden/$name.txt"; fi
  diff -u "$golden/$name.txt" "$folder/out" || fail "hetpipe $* differs from $golden/$name.txt"
}
refused() { # TEXT ARGUMENT...: exit code 2, TEXT once on standard error, nothing on standard output
  local text=$1 code=0; shift
  "$hetpipe" "$@" > "$folder/out" 2> "$folder/err" || code=$?
  [ $code -eq 2 ] || fail "hetpipe $*: exit code $code, not 2"
  [ "$(grep -c -F -- "$text" "$folder/err")" -eq 1 ] || fail "hetpipe $*: not once '$text' but: $(cat "$folder/err")"
  [ ! -s "$folder/out" ] || fail "hetpipe $*: writes to standard output: $(cat "$folder/out")"
}

compare help --help
for subcommand in $("$hetpipe" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  compare "help-$subcommand" "$subcommand" --help
done
for action in $("$hetpipe" checkpoint --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  compare "help-checkpoint-$action" checkpoint "$action" --help
done
for action in $("$hetpipe" trace --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  compare "help-trace-$action" trace "$action" --help
done
for action in $("$hetpipe" data --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  compare "help-data-$action" data "$action" --help
done
subcommands=$("$hetpipe" --help | grep -c '^  [a-z]')
actions=$(for group in checkpoint data trace; do "$hetpipe" "$group" --help; done | grep -c '^  [a-z]')
[ "$(ls "$golden"/help-*.txt | wc -l)" -eq $((subcommands + actions)) ] ||
  fail "$golden has help of unknown subcommands"

"$hetpipe" --version > "$folder/out" || fail "--version"
for pattern in '^hetpipe [0-9]*\.[0-9]*\.[0-9]* (build [0-9a-f]\{16\})$' '^compiler: ' '^device cpu: '; do
  grep -q "$pattern" "$folder/out" || fail "--version does not say $pattern: $(cat "$folder/out")"
done

refused "usage: hetpipe <subcommand>"
refused "unknown subcommand 'plann' (did you mean 'plan'?)" plann
refused "unknown option '--clustr' (did you mean '--cluster'?)" plan --clustr c.toml --profile p.toml
refused "--plan: is missing" simulate --cluster c.toml --profile p.toml
refused "--cluster: is missing" plan --clustr c.toml
refused "--what-if: needs a value (an empty one was given)" plan --cluster c.toml --profile p.toml --what-if ""
refused "$folder/none.toml: cannot be read" plan --cluster "$folder/none.toml" --profile p.toml
refused "--model: is missing" profile --sample 28x28x1 --classes 10
refused "--data: is missing" profile --model lenet
refused "--sample: '28x28'" profile --model lenet --sample 28x28 --classes 10
refused "--classes: cannot be combined with --data" profile --model lenet --data d --classes 3
refused "there is no folder $folder/no" profile --model lenet --data d --output "$folder/no/p.toml"
refused "(is a folder)" plan --cluster c.toml --profile p.toml --output "$folder"
refused "usage: hetpipe checkpoint <action>" checkpoint
refused "unknown action 'verfy' (did you mean 'verify'?)" checkpoint verfy f
refused "FILE: is missing" checkpoint info
refused "unexpected argument 'c'" checkpoint diff a b c
refused "nothing to write. Give --chrome, --csv or --durations FILE" trace export run
refused "--plan: has an effect with --durations alone" trace export run --csv "$folder/e.csv" --plan p.toml
refused "$folder: holds no trace" trace summary "$folder"
refused "$folder/none: does not exist" trace export "$folder/none" --durations "$folder/d.csv"
refused "$folder: holds no trace" trace export "$folder" --durations "$folder/d.csv"
refused "--jitter: cannot be combined with --durations" simulate --cluster c --profile p --plan q --jitter 0.1 --durations d
refused "a.h5: does not exist" checkpoint info a.h5
refused "holds no complete checkpoint" checkpoint info "$folder"
refused "--output: $folder/a.pt" checkpoint export f --output "$folder/a.pt"
refused "there is no folder $folder/no" checkpoint export f --output "$folder/no/a.npz"
refused "(did you mean 'lenet'?)" profile --model lenett --sample 28x28x1 --classes 10

# Exported models: an estimated profile, and what newcomers give for a folder.
net=$golden/../models/net
refused "there is no folder 'none/net'" profile --model none/net --estimate --output "$folder/n.toml"
refused "graph.json' is a file" profile --model "$net/graph.json" --estimate --output "$folder/n.toml"
refused "is a folder without a graph.json" profile --model "$folder" --estimate --output "$folder/n.toml"
refused "--threads: has no effect with --estimate" profile --model "$net" --estimate --threads 2 --output "$folder/n.toml"
refused "(28, 28, 1)). Give such data" profile --model "$net" --estimate --sample 32x32x3 --classes 10 --output "$folder/n.toml"
mkdir "$folder/torn"
head -c 900 "$net/graph.json" > "$folder/torn/graph.json"
refused "torn/graph.json: not JSON: line" profile --model "$folder/torn" --estimate --output "$folder/n.toml"
"$hetpipe" profile --model "$net" --estimate --output "$folder/n.toml" > "$folder/out" || fail "profile --estimate"
grep -q "^blocks.0.conv " "$folder/out" || fail "profile --estimate: $(cat "$folder/out")"
estimated=(--cluster "$golden/../../cluster-configs/lab-drawer.toml" --profile "$folder/n.toml")
"$hetpipe" plan "${estimated[@]}" --model "$net" --output "$folder/n-plan.toml" > "$folder/out" || fail "plan of an estimated profile"
grep -q "titan-v: estimated from flops and bytes" "$folder/out" || fail "plan does not say that times are estimated"
grep -q "titan-v: .* (expected error [0-9.]* %, the mean of" "$folder/out" || fail "plan does not say how far estimates may be off"
"$hetpipe" simulate "${estimated[@]}" --plan "$folder/n-plan.toml" > "$folder/out" || fail "simulate with an estimated profile"
grep -q "titan-v: .* (expected error [0-9.]* %, the mean of" "$folder/out" || fail "simulate does not say how far estimates may be off"
"$hetpipe" simulate "${estimated[@]}" --plan "$folder/n-plan.toml" --json > "$folder/out" || fail "simulate --json with an estimated profile"
grep -q '"expected_error": {' "$folder/out" || fail "simulate --json does not say how far estimates may be off"
refused "there is no folder 'none'" plan "${estimated[@]}" --model none --output "$folder/n-plan.toml"
refused "torn/graph.json: not JSON" plan "${estimated[@]}" --model "$folder/torn" --output "$folder/n-plan.toml"
refused "holds model 'gpt2' (the profile is of 'net')" plan "${estimated[@]}" --model "$net/../gpt2" --output "$folder/n-plan.toml"
# The same without a file: the profile's hash is that of the plan.
drawer=(--cluster "$golden/../../cluster-configs/lab-drawer.toml")
direct=(plan "${drawer[@]}" --estimate --output "$folder/e-plan.toml")
"$hetpipe" "${direct[@]}" --model "$net" > "$folder/out" || fail "plan --estimate"
cmp -s "$folder/e-plan.toml" "$folder/n-plan.toml" || fail "plan --estimate is not the plan of the estimated profile"
grep -q "titan-v: estimated from flops and bytes" "$folder/out" || fail "plan --estimate does not say that times are estimated"
grep -q -- "--plan $folder/e-plan.toml .*--model $net" "$folder/out" || fail "launch lines of plan --estimate: $(cat "$folder/out")"
"$hetpipe" simulate "${drawer[@]}" --estimate --model "$net" --plan "$folder/n-plan.toml" > "$folder/out" || fail "simulate --estimate"
"$hetpipe" "${direct[@]}" --model lenet --sample 28x28x1 --classes 10 > "$folder/out" || fail "plan --estimate of a built-in model"
grep -q "^lenet under hetpipe" "$folder/out" || fail "plan --estimate of a built-in model: $(cat "$folder/out")"
refused "model = 'lenet'" simulate "${drawer[@]}" --estimate --model "$net" --plan "$folder/e-plan.toml"
refused "--model: is missing (--estimate is of a model)" "${direct[@]}"
refused "Give --data DATA, or --sample HxWxC and --classes N" "${direct[@]}" --model lenet
refused "--profile: cannot be combined with --estimate" "${direct[@]}" --model "$net" --profile "$folder/n.toml"
refused "--profile: is missing. Give --profile FILE, or --estimate" plan "${drawer[@]}" --output "$folder/x.toml"
refused "--sample: has no effect without --estimate" plan "${estimated[@]}" --sample 28x28x1 --output "$folder/x.toml"
refused "--profile: is missing. Give --profile FILE, or --estimate" simulate "${drawer[@]}" --plan "$folder/n-plan.toml"
refused "--model: has no effect without --estimate" simulate "${estimated[@]}" --model "$net" --plan "$folder/n-plan.toml"
head -c 706 "$folder/n.toml" > "$folder/torn.toml"
refused "torn.toml:" plan --cluster "$golden/../../cluster-configs/lab-drawer.toml" --profile "$folder/torn.toml" --output "$folder/n-plan.toml"
refused "net: is a folder (a file is needed)" simulate --cluster "$golden/../../cluster-configs/lab-drawer.toml" --profile "$net" --plan "$folder/n-plan.toml"

"$hetpipe" plan --cluster c.toml --profile p.toml --in-flight 4 --servers n0,n1 --print-config > "$folder/run.toml" ||
  fail "--print-config"
"$hetpipe" plan --config "$folder/run.toml" --print-config > "$folder/again.toml" || fail "--config of a printed one"
diff "$folder/run.toml" "$folder/again.toml" || fail "a printed configuration does not read back as the same"
grep -q '^in-flight = 4$' "$folder/run.toml" || fail "--print-config misses in-flight"

# Checkpoints: those that the fuzz targets start from.
given=$golden/../fuzz/corpus/checkpoint
says() { # TEXT CODE ARGUMENT...: exit code CODE, TEXT on standard output
  local text=$1 want=$2 code=0; shift 2
  "$hetpipe" "$@" > "$folder/out" 2> "$folder/err" || code=$?
  [ $code -eq "$want" ] || fail "hetpipe $*: exit code $code, not $want: $(cat "$folder/err")"
  grep -q -F -- "$text" "$folder/out" || fail "hetpipe $*: no '$text' but: $(cat "$folder/out")"
}
run=$folder/run
mkdir -p "$run/checkpoints"
cp "$given/small" "$run/checkpoints/checkpoint-00000003.h5"
head -c 9000 "$given/exact" > "$run/checkpoints/checkpoint-00000004.h5"
says "checkpoint-00000003.h5" 0 checkpoint info "$run"
says "model/a/weight" 0 checkpoint info "$run/checkpoints" --tensors
says '"samples_consumed": 50' 0 checkpoint info "$run" --json
says "small: intact" 0 checkpoint verify "$given/small" "$given/exact"
says "checkpoint-00000004.h5: damaged" 2 checkpoint verify "$run"
grep -q "was cut short (9000 of" "$folder/err" || fail "verify does not say how short: $(cat "$folder/err")"
says "checkpoint-00000003.h5: intact" 2 checkpoint verify "$run"
says '"intact": false' 2 checkpoint verify "$run" --json
[ ! -s "$folder/err" ] || fail "verify --json says more: $(cat "$folder/err")"
says "identical" 0 checkpoint diff "$given/small" "$given/exact"
says "exact/worker-0/base" 2 checkpoint diff "$given/small" "$given/exact" --exact
says '"identical": true' 0 checkpoint diff "$run" "$given/small" --json
says "5 tensors" 0 checkpoint export "$run" --optimizer --output "$folder/a.npz"
refused "a.npz (already exists)" checkpoint export "$run" --output "$folder/a.npz"
says "4 tensors" 0 checkpoint export "$run" --output "$folder/a.npz" --force
refused "holds no average of the weights" checkpoint export "$run" --ema --output "$folder/b.npz"
says "4 tensors" 0 checkpoint export "$run" --raw --output "$folder/a.safetensors"
grep -q '"model/a/weight":{"dtype":"F32","shape":\[2,3\]' "$folder/a.safetensors" || fail "header of safetensors"

# A small pool: what is planned can be simulated, drawn, asked about.
cat > "$folder/pool.toml" << 'POOL'
format = 1
[device.fast]
memory = 1_000_000_000
[device.slow]
memory = 1_000_000_000
[[node]]
name = "n[0-1]"
devices = ["fast", "slow"]
[link.intra_node]
bandwidth = 10e9
[link.inter_node]
bandwidth = 1e9
POOL
{
  echo 'format = 1
model = "chain"'
  for layer in 0 1 2 3 4 5; do echo "[[layer]]
name = \"layer$layer\"
parameter_bytes = 1000"; done
  for kind in fast:0.001 slow:0.002; do echo "[[measurement]]
device = \"${kind%:*}\"
batch = 32
forward = [$(printf "%s, " ${kind#*:} ${kind#*:} ${kind#*:} ${kind#*:} ${kind#*:} ${kind#*:})]
backward = [$(printf "%s, " ${kind#*:} ${kind#*:} ${kind#*:} ${kind#*:} ${kind#*:} ${kind#*:})]
output_bytes = [4000, 4000, 4000, 4000, 4000, 4000]
stash_bytes = [4000, 4000, 4000, 4000, 4000, 4000]"; done
} > "$folder/chain.toml"
files=(--cluster "$folder/pool.toml" --profile "$folder/chain.toml")
says "plan written to" 0 plan "${files[@]}" --output "$folder/p.toml"
grep -q "^memory of" "$folder/out" || fail "plan does not print the memory of its stages"
says '"what_if"' 0 plan "${files[@]}" --output "$folder/p.toml" --what-if "-n1" --what-if "+1 fast @n0,-n1:1" --json
[ "$(grep -c '"change"' "$folder/out")" -eq 3 ] || fail "--what-if twice: not three answers"
says "The bottleneck is stage" 0 plan "${files[@]}" --output "$folder/p.toml" --explain
says '"limited_by"' 0 plan "${files[@]}" --output "$folder/p.toml" --explain --json
grep -q '"objective": "time-to-accuracy"' "$folder/out" || fail "--explain --json does not say what changes are of"
says "change of worth" 0 plan "${files[@]}" --output "$folder/p.toml" --what-if "inter x2" --what-if "minibatch = 16, -n1"
says "change of samples/s" 0 plan "${files[@]}" --output "$folder/p.toml" --objective throughput --what-if "link n0 n1 = 10Gb/s"
says "2 epochs of 600 samples: " 0 plan "${files[@]}" --output "$folder/p.toml" --epochs 2 --dataset-size 600
says '"dataset_size": 600' 0 plan "${files[@]}" --output "$folder/p.toml" --epochs 2 --dataset-size 600 --json
says "largest minibatch with these stages: " 0 plan "${files[@]}" --output "$folder/p.toml" --largest minibatch
says '"missing_bytes": ' 0 plan "${files[@]}" --output "$folder/p.toml" --largest minibatch --json
says "plans with a global batch of 64" 0 plan "${files[@]}" --output "$folder/b.toml" --global-batch 64 --system hetpipe
says '"samples": 64' 0 plan "${files[@]}" --output "$folder/b.toml" --global-batch 64 --system gpipe --json
says "mpirun -np 4" 0 plan "${files[@]}" --output "$folder/g.toml" --system gpipe
says '"bound"' 0 plan "${files[@]}" --output "$folder/s.toml" --policy search --json
# PipeDream's graph.txt on two equal workers: halves of 0.3 + 0.3 s, as 1 GB of parameters to exchange rule replicas out.
sed 's/"fast", "slow"/"fast"/' "$folder/pool.toml" > "$folder/pair.toml"
{
  for node in 1 2 3 4; do
    echo "node$node -- Linear(8, 8) -- forward_compute_time=100, backward_compute_time=200, activation_size=1000, parameter_size=$((node / 4 * 1000000000 / 8))"
  done
  printf '\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n'
} > "$folder/graph.txt"
graph=(--cluster "$folder/pair.toml" --profile "$folder/graph.txt" --profile-device fast --profile-batch 8)
says '"bottleneck": 0.6' 0 plan "${graph[@]}" --system pipedream --output "$folder/d.toml" --json
grep -q '^bottleneck = 0.6' "$folder/d.toml" || fail "the plan lacks PipeDream's objective"
refused "(did you mean 'n1'?)" plan "${files[@]}" --output "$folder/x.toml" --what-if "-nn1"
[ ! -e "$folder/x.toml" ] || fail "a plan was written although the question was refused"
refused "--clock-distance: cannot be combined with --system dapple" plan "${files[@]}" --system dapple --clock-distance 1
refused "--in-flight: cannot be combined with --system gpipe" plan "${files[@]}" --system gpipe --in-flight 2
refused "--policy: ed cannot be combined with --system dapple" plan "${files[@]}" --system dapple --policy ed
for key in version throughput iteration_time global_batch virtual_worker replica busy bubble communication peak_memory; do
  says "\"$key\": " 0 simulate "${files[@]}" --plan "$folder/p.toml" --json
done
says "F forward, B backward" 0 simulate "${files[@]}" --plan "$folder/p.toml" --gantt --svg "$folder/p.svg" --trace "$folder/p.json"
grep -q '^</svg>$' "$folder/p.svg" || fail "no drawing"
grep -q '"ph":"X"' "$folder/p.json" || fail "no trace"
sed 's/"n1:1"/"n1:7"/' "$folder/p.toml" > "$folder/bad.toml"
refused "bad.toml:" simulate "${files[@]}" --plan "$folder/bad.toml"
sed 's/"chain"/"chains"/' "$folder/p.toml" > "$folder/bad.toml"
refused "bad.toml:3: model = 'chains'" simulate "${files[@]}" --plan "$folder/bad.toml"
refused "--gantt: cannot be combined with --json" simulate "${files[@]}" --plan "$folder/p.toml" --gantt --json
refused "--until: has no effect" simulate "${files[@]}" --plan "$folder/p.toml" --until 3
refused "the run lasts from" simulate "${files[@]}" --plan "$folder/p.toml" --gantt --from 1e9
says '"wave updates"' 0 plan "${files[@]}" --output "$folder/p.toml" --ledger --json

# What is wrong with files and options that are sound in themselves: said with its place, and nothing written.
spoilt() { # TEXT FILE SED ARGUMENT...: refused once a copy of FILE, changed by SED, takes its place
  local text=$1 file=$2 change=$3; shift 3
  cp "$file" "$folder/sound"
  sed -i "$change" "$file"
  cmp -s "$file" "$folder/sound" && fail "'$change' changes nothing of $file"
  refused "$text" "$@"
  cp "$folder/sound" "$file"
  for made in "$folder/x.toml" "$folder/x.svg" "$folder/x.json"; do
    if [ -e "$made" ]; then fail "$made was written although '$change' was refused"; rm -f "$made"; fi
  done
}
line_of() { grep -n -m 1 -- "$2" "$1" | cut -d: -f1; }
pool=$folder/pool.toml
chain=$folder/chain.toml
p=$folder/p.toml
planned=(plan "${files[@]}" --output "$folder/x.toml")
played=(simulate "${files[@]}" --plan "$p" --svg "$folder/x.svg" --trace "$folder/x.json")

# Times, graphs.
at=$(line_of "$chain" forward)
for bad in -0.001 nan inf 1e30; do
  spoilt "chain.toml:$at: [[measurement]]: an item of forward" "$chain" "$at s/0.001/$bad/" "${planned[@]}"
done
spoilt "chain.toml:$at: [[measurement]]: no layer takes any time" "$chain" 's/0.001/0/g' "${planned[@]}"
at=$(line_of "$chain" layer2)
spoilt "chain.toml:$((at + 1)): layer 'layer2': input 4 (it comes later: a cycle," "$chain" "${at}a inputs = [4]" "${planned[@]}"
spoilt "that is a cycle). Name earlier layers, 0 ... 1 here." "$chain" "${at}a inputs = [2]" "${planned[@]}"
spoilt "The first layer reads none: write inputs = []." "$chain" '/layer0/a inputs = [0]' "${planned[@]}"
spoilt "layer 'layer1': no later layer reads its output (the graph is disconnected here)" "$chain" "${at}a inputs = []" "${planned[@]}"
graph_file=$folder/graph.txt
printf '%s\n' 'node1 -- Input -- forward_compute_time=0.0, backward_compute_time=0.0, activation_size=1000.0, parameter_size=0.0' \
  'node2 -- Conv -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=2000.0, parameter_size=10.0' \
  'node3 -- Fc -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=20.0, parameter_size=10.0' \
  '	node1 -- node2' '	node2 -- node3' > "$graph_file"
sed 's/, "slow"//' "$pool" > "$folder/fast.toml"
graphed=(plan --cluster "$folder/fast.toml" --profile "$graph_file" --profile-device fast --profile-batch 8)
says "plan written to" 0 "${graphed[@]}" --output "$folder/y.toml"
graphed+=(--output "$folder/x.toml")
spoilt "graph.txt:6: the graph has a cycle: node1 -> node2 -> node3 -> node1" "$graph_file" '$a \	node3 -- node1' "${graphed[@]}"
spoilt "graph.txt:6: the graph has a cycle: node3 -> node3" "$graph_file" '$a \	node3 -- node3' "${graphed[@]}"
spoilt "graph.txt:3: node3: no chain of edges joins it to node1" "$graph_file" '$d' "${graphed[@]}"
spoilt "graph.txt:6: edge node3 -- node9: no node9" "$graph_file" '$a \	node3 -- node9' "${graphed[@]}"
for bad in -1 1e30 nan inf x; do
  spoilt "graph.txt:3: node3: backward_compute_time" "$graph_file" "3 s/backward_compute_time=2.0/backward_compute_time=$bad/" "${graphed[@]}"
done
spoilt "graph.txt:3: 'node3 -- Fc" "$graph_file" '3,$ d; 2 s/$/\nnode3 -- Fc -- forw/' "${graphed[@]}"
spoilt "graph.txt: the file is empty" "$graph_file" d "${graphed[@]}"
refused "(did you mean 'fast'?)" plan --cluster "$folder/fast.toml" --profile "$graph_file" --profile-device fats
refused "the file does not say what it was measured on" plan --cluster "$folder/fast.toml" --profile "$graph_file"
refused "are for PipeDream's graph.txt" "${planned[@]}" --profile-device fast

# Pools.
at=$(line_of "$pool" device.slow)
spoilt "pool.toml:$at: the profile of 'chain' has no measurement on 'slow', and its speed is not known" "$chain" 's/"slow"/"slwo"/' "${planned[@]}"
at=$(line_of "$pool" 'devices =')
spoilt "pool.toml:$at: the profile of 'chain' has no measurement on 'v100-sxm-16gb', and the speed of what it was measured on is not known" "$pool" 's/\["fast"/["v100-sxm-16gb"/' "${planned[@]}"
at=$(($(wc -l < "$pool") + 1))
spoilt "pool.toml:$at: the profile of 'chain' has no measurement on 'third' or 'cpu'" "$pool" \
  's/"slow"\]/"third"]/; $ a [device.third]\nmemory = 1_000_000_000\nemulate = { slowdown = 2 }' "${planned[@]}"
spoilt "[link.inter_node] is missing (the cluster has several nodes)" "$pool" '/inter_node/,$ d' "${planned[@]}"
spoilt "[link.intra_node] is missing" "$pool" '/intra_node/,/bandwidth/ d' "${planned[@]}"
spoilt "pool.toml: no node has a device" "$pool" 's/\["fast", "slow"\]/[]/' "${planned[@]}"
spoilt "the file has no [[node]]" "$pool" '/node\]\]/,/devices/ d' "${planned[@]}"
spoilt "'bandwith' (did you mean 'bandwidth'?)" "$pool" 's/bandwidth = 1e9/&\nbandwith = 1e9/' "${planned[@]}"

# Plans: of another model, profile, pool; cut off; at odds with themselves.
at=$(line_of "$p" profile_hash)
spoilt "p.toml:$at: the plan was made with another profile" "$chain" 's/0.002/0.003/' "${played[@]}"
spoilt "p.toml:3: model = 'chain' (the profile is of 'other'" "$chain" 's/"chain"/"other"/' "${played[@]}"
spoilt "unknown device 'n1:1' (did you mean" "$pool" 's/, "slow"//' "${played[@]}"
at=$(line_of "$p" 'virtual_worker.stage')
spoilt "p.toml:$at: [[virtual_worker.stage]]: devices is missing" "$p" "$((at + 2)),\$ d" "${played[@]}"
spoilt "p.toml:5: not TOML" "$p" 's/^minibatch = 32.*/minibatch = 32\nminibatch = 32/' "${played[@]}"
spoilt "p.toml:1: the file's format is not known" "$p" 's/format = 1/format = 2/' "${played[@]}"
spoilt "p.toml:5: weights 'newest' under schedule 'gpipe'" "$p" 's/^minibatch = 32.*/minibatch = 32\nweights = "newest"\nschedule = "gpipe"/' "${played[@]}"
spoilt "p.toml:5: schedule 'continuous-1f1b' under runtime 'megatron-deepspeed'" "$p" 's/^minibatch = 32.*/&\nruntime = "megatron-deepspeed"/' "${played[@]}"
sed 's/1e9$/2e9/' "$pool" > "$folder/pool2.toml"
says "throughput" 0 simulate --cluster "$folder/pool2.toml" --profile "$chain" --plan "$p"
grep -q "warning: .*p.toml:[0-9]*: the plan was made for another cluster" "$folder/err" || fail "no warning of another cluster"
refused "chain.toml:3: 'layer' belongs in a profile (a cluster file is expected here)" plan --cluster "$chain" --profile "$pool"

# Options at odds with each other, or with files.
refused "--output: $pool (is the same file as that of --cluster," plan "${files[@]}" --output "$pool"
refused "--trace: $p (is the same file as that of --plan," simulate "${files[@]}" --plan "$p" --trace "$p"
refused "--trace: $folder/x.svg (is the same file as that of --svg," simulate "${files[@]}" --plan "$p" --svg "$folder/x.svg" --trace "$folder/x.svg"
refused "--seed: has no effect" simulate "${files[@]}" --plan "$p" --seed 3
refused "--what-if: needs a value (an empty one was given)" "${planned[@]}" --what-if ""
refused "'n0 @n1' is more than one node" "${planned[@]}" --what-if "+1 fast @n0 @n1"
refused "--what-if +1 t4 @n0: the profile of 'chain' has no measurement on 't4'" "${planned[@]}" --what-if "+1 t4 @n0"
refused "--what-if: 'lnks x2': unknown change 'lnks' (did you mean 'links'?). Write +N TYPE @NODE" "${planned[@]}" --what-if "lnks x2"
refused "--epochs: needs the number of samples" "${planned[@]}" --epochs 2
refused "--dataset-size: has no effect" "${planned[@]}" --dataset-size 600
refused "--minibatch: cannot be combined with --global-batch" "${planned[@]}" --global-batch 64 --minibatch 32
refused "--policy: ed cannot be combined with --global-batch" "${planned[@]}" --global-batch 64 --policy ed
refused "--global-batch: 65 does not divide among 2 virtual workers" "${planned[@]}" --global-batch 65 --virtual-workers 2
refused "--servers: node 'n0' is named twice" "${planned[@]}" --servers n0,n0
refused "--weights: weights 'stash' under schedule 'gpipe' (a flush leaves one version to choose from). Use weights that work with that schedule: one-version." \
  "${planned[@]}" --system gpipe --weights stash
refused "--schedule: weights 'stash' under schedule 'gpipe'" "${planned[@]}" --schedule gpipe
refused "--clock-distance: cannot be combined with --system asp" "${planned[@]}" --system asp --clock-distance 1
refused "--push-precision: cannot be combined with --system dapple (its replicas all-reduce" "${planned[@]}" --system dapple --push-precision bf16
refused "--push-precision: unknown value 'fp16' (known: fp32, bf16)" "${planned[@]}" --push-precision fp16
refused "--virtual-workers: 2 (DAPPLE's planner forms one virtual worker" "${planned[@]}" --system dapple --virtual-workers 2
refused "--minibatch: 33 does not divide into 2 micro-batches" "${planned[@]}" --minibatch 33 --micro-batches 2
[ ! -e "$folder/x.toml" ] || fail "a plan was written although the options were refused"

if [ -w /dev/full ]; then
  code=0
  "$hetpipe" --help > /dev/full 2> "$folder/err" || code=$?
  [ $code -eq 3 ] || fail "a full disk under standard output: exit code $code, not 3"
fi
exit $failed
