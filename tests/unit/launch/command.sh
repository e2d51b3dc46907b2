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
subcommands=$("$hetpipe" --help | grep -c '^  [a-z]')
actions=$("$hetpipe" checkpoint --help | grep -c '^  [a-z]')
[ "$(ls "$golden"/help-*.txt | wc -l)" -eq $((subcommands + actions)) ] ||
  fail "$golden has help of subcommands that there are not"

"$hetpipe" --version > "$folder/out" || fail "--version"
for pattern in '^hetpipe [0-9]*\.[0-9]*\.[0-9]* (build [0-9a-f]\{16\})$' '^compiler: ' '^device cpu: '; do
  grep -q "$pattern" "$folder/out" || fail "--version does not say $pattern: $(cat "$folder/out")"
done

refused "usage: hetpipe <subcommand>"
refused "unknown subcommand 'plann' (did you mean 'plan'?)" plann
refused "unknown option '--clustr' (did you mean '--cluster'?)" plan --clustr c.toml --profile p.toml
refused "--cluster: is missing" plan --clustr c.toml
refused "--what-if: needs a value (an empty word follows it)" plan --cluster c.toml --profile p.toml --what-if ""
refused "$folder/none.toml: cannot be read" plan --cluster "$folder/none.toml" --profile p.toml
refused "--model: is missing" profile --sample 28x28x1 --classes 10
refused "--data: is missing" profile --model lenet
refused "--sample: '28x28'" profile --model lenet --sample 28x28 --classes 10
refused "--classes: cannot stand beside --data" profile --model lenet --data d --classes 3
refused "there is no folder $folder/no" profile --model lenet --data d --output "$folder/no/p.toml"
refused "(is a folder)" plan --cluster c.toml --profile p.toml --output "$folder"
refused "usage: hetpipe checkpoint <action>" checkpoint
refused "unknown action 'verfy' (did you mean 'verify'?)" checkpoint verfy f
refused "FILE: is missing" checkpoint info
refused "unexpected argument 'c'" checkpoint diff a b c
refused "a.h5: does not exist" checkpoint info a.h5
refused "holds no complete checkpoint" checkpoint info "$folder"
refused "--output: $folder/a.pt" checkpoint export f --output "$folder/a.pt"
refused "there is no folder $folder/no" checkpoint export f --output "$folder/no/a.npz"
refused "(did you mean 'lenet'?)" profile --model lenett --sample 28x28x1 --classes 10

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
refused "a.npz (exists already)" checkpoint export "$run" --output "$folder/a.npz"
says "4 tensors" 0 checkpoint export "$run" --output "$folder/a.npz" --force
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
says "training cannot play it yet" 0 plan "${files[@]}" --output "$folder/g.toml" --system gpipe
says '"bound"' 0 plan "${files[@]}" --output "$folder/s.toml" --policy search --json
refused "(did you mean 'n1'?)" plan "${files[@]}" --output "$folder/x.toml" --what-if "-nn1"
[ ! -e "$folder/x.toml" ] || fail "a plan was written although the question was refused"
refused "--clock-distance: cannot stand beside --system dapple" plan "${files[@]}" --system dapple --clock-distance 1
refused "--in-flight: cannot stand beside --system gpipe" plan "${files[@]}" --system gpipe --in-flight 2
refused "--policy: ed cannot stand beside --system dapple" plan "${files[@]}" --system dapple --policy ed
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
refused "--gantt: cannot stand beside --json" simulate "${files[@]}" --plan "$folder/p.toml" --gantt --json
refused "--until: has nothing to act on" simulate "${files[@]}" --plan "$folder/p.toml" --until 3
refused "the run lasts from" simulate "${files[@]}" --plan "$folder/p.toml" --gantt --from 1e9
sed -i 's/0.002/0.003/' "$folder/chain.toml"
says "throughput" 0 simulate "${files[@]}" --plan "$folder/p.toml"
grep -q "warning: .* was planned for another profile" "$folder/err" || fail "no warning of another profile"

if [ -w /dev/full ]; then
  code=0
  "$hetpipe" --help > /dev/full 2> "$folder/err" || code=$?
  [ $code -eq 3 ] || fail "a full disk under standard output: exit code $code, not 3"
fi
exit $failed
