#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doctor.sh HETPIPE BAD_HOST_LIBRARY: `hetpipe doctor` under mpirun, in a launch that is sound and in each of those
# that are not: the wrong number of ranks, hosts that the plan does not name, two builds, two versions of a library,
# an output directory without room or locks, a host without the plan's device, a clock that is wrong, ranks on one
# core, a scheduler that does not answer. What it says stands there once, with the exit code, and nothing is left behind. (Pairs of ranks that cannot
# reach each other: doctor_blocked.sh.)
set -uo pipefail
hetpipe=$1
bad_host=$2
. "$(dirname "$0")/../main/patience.sh"
folder=$(mktemp -d)
trap 'umount "$folder/full" 2> /dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir out
failed=0
fail() { echo "FAILED: $*"; failed=1; }
host=$(uname -n)

run() { # WANTED-CODE COMMAND...: into said and err
  local want=$1 code=0; shift
  timeout -k 2 "$(patience 60)" "$@" > said 2> err || code=$?
  [ $code -eq "$want" ] || fail "$*: exit code $code, not $want: $(cat said err)"
}
says() { # TEXT...: each once
  local text
  for text in "$@"; do
    [ "$(grep -c -F -- "$text" said)" -eq 1 ] || fail "'$text' $(grep -c -F -- "$text" said) times, not once: $(cat said err)"
  done
}
mpirun=(mpirun --oversubscribe --bind-to none)
launch() { # WANTED-CODE RANKS WORDS...: one by hand, for mpirun takes seconds to end when a rank has failed
  if [ "$2" -eq 1 ]; then
    run "$1" "$hetpipe" doctor "${@:3}"
  else
    run "$1" "${mpirun[@]}" -n "$2" "$hetpipe" doctor "${@:3}"
  fi
}
together() { run "$1" "${mpirun[@]}" "${@:2}"; } # WANTED-CODE WORDS OF MPIRUN...

# --- what a plan asks for: three ranks, of an emulated cluster, then of this host ------------------------------------
cat > cluster.toml << 'CLUSTER'
format = 1
[device.fast]
memory = 1_000_000_000
emulate = { slowdown = 1.0 }
[[node]]
name = "n0"
devices = ["fast", "fast"]
[[node]]
name = "s0"
devices = []
[link.intra_node]
bandwidth = 1e9
[link.inter_node]
bandwidth = 1e9
CLUSTER
cat > plan.toml << 'PLAN'
format = 1
system = "hetpipe"
model = "mlp"
minibatch = 8
in_flight = 2
[[virtual_worker]]
[[virtual_worker.stage]]
layers = [0, 3]
devices = ["n0:0"]
[[virtual_worker.stage]]
layers = [3, 7]
devices = ["n0:1"]
[parameter_server]
nodes = ["s0"]
clock_distance = 0
PLAN
cards() { # HOST KIND: the same on one host with two such cards
  sed -e "s/\"n0\"/\"$1\"/" -e "s/\"fast\"/\"$2\"/g" -e "/^\[device/,/^emulate/d" cluster.toml > cards.toml
  sed -e "s/n0:/$1:/" plan.toml > cards-plan.toml
}
planned=(--plan plan.toml --cluster cluster.toml)

# --- nothing stands in the way -----------------------------------------------------------------------------------------
launch 0 3 "${planned[@]}" --output out/run
says "No problem was found." "3 of 3 pairs answer" "2 workers, 1 parameter server ranks" \
  "out/run, tried in out" "parameter server 0 on s0"
[ -z "$(ls -A out)" ] || fail "something was left behind: $(ls -A out)"
launch 0 1
says "started by hand" "one rank: no links"
together 0 --enable-recovery -n 2 "$hetpipe" doctor
says "note: mpirun --enable-recovery returns 0 even if a rank was killed (" "No problem was found."
launch 0 2 --json
if command -v python3 > /dev/null; then
  python3 - said << 'PYTHON' || fail "--json: $(cat said)"
import json, sys
said = json.load(open(sys.argv[1]))
assert said["exit_code"] == 0 and [r["rank"] for r in said["ranks"]] == [0, 1]
assert [(l["from"], l["to"], l["answers"]) for l in said["links"]] == [(0, 1, True)]
assert said["links"][0]["there"] > 1e6 and abs(said["ranks"][1]["clock_offset"]) < 60
assert {c["check"] for c in said["checks"]} >= {"launcher", "plan", "versions", "devices", "cores", "links", "clocks"}
PYTHON
fi

# --- data: read by those that will read them, at once ---------------------------------------------------------------
for _ in {1..4000}; do echo -n "to be or not to be "; done > words.txt
cp words.txt others.txt
echo "that is the question" >> others.txt
launch 0 3 "${planned[@]}" --data text:words.txt
says "text:words.txt: 1068 samples; 1 rank reads " "/s with 1 thread; " "No problem was found."
launch 2 3 "${planned[@]}" --data text:no.txt
says "mistake: rank 0 on $host: no.txt"
data=("$hetpipe" doctor --data-threads 2 --data)
together 2 -n 1 "${data[@]}" text:words.txt : -n 1 "${data[@]}" text:others.txt
says "2 ranks read " "with 2 threads" "mistake: rank 1 on $host: have other data under that name"
launch 0 3 "${planned[@]}" --data text:words.txt --json
if command -v python3 > /dev/null; then
  python3 - said << 'PYTHON' || fail "--json: $(cat said)"
import json, sys
ranks = json.load(open(sys.argv[1]))["ranks"]
assert ["data" in r for r in ranks] == [True, False, False]
assert ranks[0]["data"]["samples_per_second"] > 0 and ranks[0]["data"]["threads"] == 1
PYTHON
fi
sed -e '$ a [predicted]\nthroughput = 1e12\nbottleneck = 1.0' plan.toml > swift.toml
launch 0 3 --plan swift.toml --data text:words.txt
says "and trains on 1000000000000 by the plan (it waits for data 100 % of the time)"

# --- ranks against the plan ----------------------------------------------------------------------------------------------
launch 2 1 "${planned[@]}"
says "mistake: the plan needs 3 ranks, 2 workers and 1 parameter servers (this launch has 1)" "  mpirun -np 3 " \
  "  srun --mpi=pmix -K -n 3 "
# And called otherwise: rank 0's options are everybody's, and the report says so.
cards elsewhere rtx-3090
here=("$hetpipe" doctor --plan cards-plan.toml --cluster cards.toml)
together 2 -n 2 "${here[@]}" --output out/run : -n 1 "${here[@]}" --timeout 4
says "node 'elsewhere' has 2 workers" "rank 2 on $host: started with " "out/run, tried in out" "3 of 3 pairs answer"
launch 2 1 --cluster cards.toml
says "no rank on elsewhere, s0"
launch 2 1 --plan nowhere.toml --cluster cluster.toml --output out/run
says "mistake: nowhere.toml: cannot be read" "out/run, tried in out"
if ! "$hetpipe" --version | grep -q 'device cuda: .*GPUs'; then
  # The cards that the plan and its profile are of, on a host that has none.
  cards "$host" rtx-3090
  launch 2 3 --plan cards-plan.toml --cluster cards.toml
  says "mistake: ranks 0 and 1 on $host: no GPU for devices of type rtx-3090"
  launch 2 1 --cluster cards.toml
  says "mistake: $host: has 2 devices of type rtx-3090 in cards.toml"
  launch 3 1 --device cuda
  says "failure: rank 0 on $host: device cuda: "
fi

# Rank 0 cannot ask Slurm: that is said, once, and nobody waits for anybody.
job=(env SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n0 PATH="$folder/tools:$PATH")
mkdir tools
printf '#!/bin/sh\necho "slurm_load_node: Unable to contact slurm controller"\nexit 1\n' > tools/scontrol
chmod +x tools/scontrol
together 3 -n 3 "${job[@]}" "$hetpipe" doctor --cluster slurm
[ "$(grep -c 'scontrol ended with code 1: slurm_load_node: Unable to contact' err)" -eq 1 ] || fail "not once: $(cat err)"
grep -q "^rank 0 on $host: scontrol ended" err || fail "it is not said which rank asked: $(cat err)"
grep -E 'has died|not responded|waited' err && fail "a rank waited for another: $(cat err)"
run 3 "${job[@]}" "$hetpipe" doctor --cluster slurm

run 2 env PMI_RANK=0 PMI_SIZE=3 "$hetpipe" doctor --output out/run
says "mistake: mpiexec of another MPI started 3 ranks, and MPI sees 1" "  mpirun -np 3 $hetpipe doctor --output out/run" \
  "out/run, tried in out"
run 2 env PMI_RANK=1 PMI_SIZE=3 "$hetpipe" doctor
[ ! -s said ] || fail "not the first rank alone speaks: $(cat said)"

# --- two versions, and more of what is wrong with a host --------------------------------------------------------------------------------------------------------
cp "$hetpipe" other-build
echo x >> other-build
library=$(ldd "$hetpipe" | sed -n 's/.*libdnnl\.so[^ ]* => \([^ ]*\).*/\1/p')
name=$(basename "$library")
mkdir other
cp "$library" "other/$name.99"
ln -s "$name.99" "other/$name"
# And a clock that is wrong, and no locks there: all is said at once, and links are tested all the same.
together 3 -n 1 "$hetpipe" doctor --output out/run : \
  -n 1 env LD_LIBRARY_PATH="$folder/other" LD_PRELOAD="$bad_host" BAD_HOST=locks,clock ./other-build doctor --output out/run
says "failure: hetpipe: 2 versions: " "at rank 1 on $host (different builds" "Install the same build on all hosts." \
  "failure: oneDNN: 2 versions: " "$name.99 at rank 1 on $host" \
  "failure: --output out/run: the lock of rank 0 on $host does not hold for rank 1 on $host: No locks available" \
  "1 of 1 pairs answer"
grep -q -E "note: rank 1 on $host: its clock is (29 m 5.|30 m 0.) s ahead of that of rank 0 on $host" said ||
  fail "the clock that is half an hour ahead is not reported: $(cat said)"

# --- output --------------------------------------------------------------------------------------------------------------
echo mine > taken
launch 2 1 --output taken
says "mistake: --output taken: cannot be written (taken is not a directory)"
run 3 env LD_PRELOAD="$bad_host" BAD_HOST=locks "$hetpipe" doctor --output out/run
says "failure: --output out/run: cannot be locked: No locks available"
mkdir full
if mount -t tmpfs -o size=1m none full 2> /dev/null; then
  launch 3 1 --output full/run
  says "failure: --output full/run: No space left on device after 1.0 MB"
  [ -z "$(ls -A full)" ] || fail "something was left behind: $(ls -A full)"
  umount full
else
  echo "not tried: an output directory without room (file systems cannot be mounted here)"
fi
[ -z "$(ls -A out)" ] || fail "something was left behind: $(ls -A out)"

# --- cores -----------------------------------------------------------------------------------------------------------------
if [ "$(nproc)" -gt 1 ]; then
  core=$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')
  together 0 -n 2 taskset -c "$core" "$hetpipe" doctor
  says "note: ranks 0 and 1 on $host: are bound to the same core $core"
  together 2 -n 3 taskset -c "$core" "$hetpipe" doctor "${planned[@]}" --threads 2
  says "mistake: --threads: 2, and the launcher has bound ranks 0 and 1 on $host to 1 core"
else
  echo "not tried: ranks bound to one core (there is one)"
fi
exit $failed
