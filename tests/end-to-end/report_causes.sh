#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# report_causes.sh HETPIPE SOURCE_DIR
# Causes that are planted: the page's first sentence names each. In the quick start's pool, whose slowest stage is virtual worker 0's
# second; each is simulated and then trained, in simulated time. What the simulator does not know is trained in real time.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/end-to-end/fashion_scratch.sh"
. "$source/tests/main/patience.sh"
plan_quickstart "$hetpipe" "$source" --optimizer adam --in-flight 2
sed -i -e '/^predicted = /d; /^\[predicted\]/,$d' "$folder/plan.toml"
pool=$cluster
failed=0

# named PAGE SENTENCE: the page's first sentence.
named() {
  local said
  said=$(sed -n 's/.*<p class="lead"><strong>\([^<]*\)<.*/\1/p' "$1")
  if [ "$said" = "$2" ]; then echo "$(basename "$1"): $said"; else echo "WRONG: $1: said '$said', and it is '$2'"; failed=1; fi
}
train() { # NAME PLAN OPTION...: for the pool $folder/NAME.toml
  "$hetpipe" train --plan "$2" --cluster "$folder/$1.toml" --profile "$profile" --data fashion-mnist --transport threads \
    --output "$folder/$1-run" "${@:3}" > "$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
}
# planted NAME CLAUSE [PLAN]
planted() {
  local plan=${3:-$folder/plan.toml}
  "$hetpipe" simulate --plan "$plan" --cluster "$folder/$1.toml" --profile "$profile" --report "$folder/$1.html" > "$folder/said"
  named "$folder/$1.html" "$2 this plan."
  train "$1" "$plan" --epochs 0.03 --clock simulated
  cp "$folder/$1-run/report.html" "$folder/$1-run.html"
  named "$folder/$1-run.html" "$2 this run."
}
cp "$pool" "$folder/nothing.toml"
planted nothing "Computing on stage 1 limits"
sed 's/^bandwidth = 1e9/bandwidth = 5e6/' "$pool" > "$folder/slow-links.toml"
planted slow-links "Transfers between stages limit"
sed 's/^bandwidth = 0.5e9/bandwidth = 1e5/' "$pool" > "$folder/slow-servers.toml"
planted slow-servers "Waiting for parameter servers or sums of gradients limits"
{ cat "$pool"; printf '[[link.between]]\nnodes = ["server", "n0"]\nbandwidth = 1e5\n'; } > "$folder/slow-server-node.toml"
planted slow-server-node "Waiting for parameter servers or sums of gradients limits"
sed 's/slowdown = 16.0/slowdown = 80.0/' "$pool" > "$folder/slow-device.toml"
planted slow-device "Computing on stage 0 limits"
sed 's/layers = \[0, 3\]/layers = [0, 9]/; s/layers = \[3, 12\]/layers = [9, 12]/' "$folder/plan.toml" > "$folder/bad-cut-plan.toml"
cp "$pool" "$folder/bad-cut.toml"
planted bad-cut "Computing on stage 0 limits" "$folder/bad-cut-plan.toml"
sed 's/^in_flight = 2/in_flight = 1/' "$folder/plan.toml" > "$folder/one-in-flight-plan.toml"
cp "$pool" "$folder/one-in-flight.toml"
planted one-in-flight "Too few minibatches in flight (1) limit" "$folder/one-in-flight-plan.toml"
grep -q 'The edit that helps most: set in_flight = 2' "$folder/one-in-flight.html" || { echo "one in flight: two are not advised"; failed=1; }
# As much memory as one minibatch takes.
sed 's/^memory = .*/memory = 10_500_000/' "$pool" > "$folder/memory.toml"
planted memory "Too little memory for more minibatches in flight (now 1) limits" "$folder/one-in-flight-plan.toml"
# A flush for one micro-batch: each stage waits for the other.
cat > "$folder/flush-plan.toml" << 'END'
format = 1
system = "gpipe"
model = "lenet"
minibatch = 64
micro_batches = 1
optimizer = "adam"
[[virtual_worker]]
[[virtual_worker.stage]]
layers = [0, 3]
devices = ["n0:1"]
[[virtual_worker.stage]]
layers = [3, 12]
devices = ["n0:0"]
END
cp "$pool" "$folder/flush.toml"
planted flush "Too few micro-batches (1) limit" "$folder/flush-plan.toml"

# In real time, on devices as fast as this machine: samples that take longer to make than to learn.
sed 's/slowdown = .*\.0 }/slowdown = 1.0 }/' "$pool" > "$folder/data.toml"
train data "$folder/plan.toml" --epochs 0.03 --train-transforms "Resize(1024), Resize(28)" --test-transforms "Resize(28)"
named "$folder/data-run/report.html" "Reading samples limits this run."
# A device that is slow now and then: its rank stands still for half of the time, often enough that most times it is computing.
mpirun --oversubscribe -n 5 "$hetpipe" train --plan "$folder/plan.toml" --cluster "$pool" --profile "$profile" --data fashion-mnist \
  --epochs 0.25 --output "$folder/straggler" > "$folder/said" 2>&1 &
launch=$!
straggler=""
until [ -n "$straggler" ]; do
  for process in $(pgrep -f "^$hetpipe train .*--output $folder/straggler"); do
    if grep -q -z -x OMPI_COMM_WORLD_RANK=2 "/proc/$process/environ" 2> /dev/null; then straggler=$process; fi
  done
  kill -0 $launch 2> /dev/null || { cat "$folder/said"; exit 1; }
done
within 20 "wave" grep -q '^wave' "$folder/said"
while kill -STOP "$straggler" 2> /dev/null; do
  sleep 0.5
  kill -CONT "$straggler" 2> /dev/null || break
  sleep 0.5
done
wait $launch || { cat "$folder/said"; exit 1; }
named "$folder/straggler/report.html" "A device that is slow now and then, on stage 0, limits this run."
exit $failed
