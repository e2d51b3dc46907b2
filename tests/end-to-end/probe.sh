#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# probe.sh HETPIPE: `hetpipe probe` alone and under mpirun: what it writes is planned as it is, what it
# prints as JSON parses, what is wrong is said once and nothing is written. And `hetpipe profile` measures
# what it has not measured before.
set -uo pipefail
hetpipe=$1
. "$(dirname "$0")/../main/patience.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HETPIPE_CACHE=$folder/cache
cd "$folder" || exit 1
failed=0
fail() { echo "FAILED: $*"; failed=1; }

run() { # WANTED-CODE COMMAND...: into out and err
  local want=$1 code=0; shift
  timeout -k 2 "$(patience 60)" "$@" > out 2> err || code=$?
  [ $code -eq "$want" ] || fail "$*: exit code $code, not $want: $(cat out err)"
}
says() { grep -q -F -- "$1" "$2" || fail "no '$1' in $2: $(cat "$2")"; }

# --- profile: kept, taken, measured again -----------------------------------------------------------
profile=("$hetpipe" profile --model mlp --sample 8x8x1 --classes 4 --device cpu)
run 0 "${profile[@]}" --output profile.toml
says "batches of 1, 2, 8, 32, 128, 512 samples" out
says "cached in $HETPIPE_CACHE/profiles/" out
[ "$(grep -c '^batch = ' profile.toml)" -eq 6 ] || fail "not six batches in profile.toml"
run 0 "${profile[@]}" --output again.toml --kind other
says "measured earlier and cached in $HETPIPE_CACHE/profiles/" out
sed 's/"other"/"cpu"/' again.toml | cmp - profile.toml || fail "what was kept is another profile"
cp profile.toml first.toml
run 0 "${profile[@]}" --output profile.toml --fresh
says "cached in" out
cmp -s first.toml profile.toml && fail "--fresh measured the same to the last digit"
for other in "--threads 2" "--minibatch 8"; do
  run 0 "${profile[@]}" $other --output other.toml
  grep -q "measured earlier" out && fail "$other: another profile was taken"
done
[ "$(ls "$HETPIPE_CACHE/profiles" | wc -l)" -eq 3 ] || fail "not three profiles are kept: $(ls "$HETPIPE_CACHE/profiles")"

# --- probe: alone, and with 1, 2, 4 ranks ----------------------------------------------------------
planned() { # FILE DEVICES
  run 0 "$hetpipe" plan --cluster "$1" --profile profile.toml --minibatch 8 --system hetpipe --virtual-workers 1 --output plan.toml
  says 'plan written to plan.toml' out
  [ "$(grep -o '"cpu"' "$1" | wc -l)" -eq "$2" ] || fail "$1 has not $2 devices: $(cat "$1")"
}
run 0 "$hetpipe" probe --seconds 0.5 --device cpu --output alone.toml
says "cluster written to alone.toml" out
planned alone.toml 1
for ranks in 1 2 4; do
  run 0 mpirun --oversubscribe -n $ranks "$hetpipe" probe --seconds 0.5 --device cpu --output c$ranks.toml
  [ "$(grep -c 'cluster written to' out)" -eq 1 ] || fail "$ranks ranks: not said once: $(cat out)"
  planned c$ranks.toml $ranks
  run 0 mpirun --oversubscribe -n $ranks "$hetpipe" probe --seconds 0.5 --device cpu --output j.toml --json
  if command -v python3 > /dev/null; then
    python3 - $ranks out << 'PYTHON' || fail "$ranks ranks: --json: $(cat out)"
import json, sys
ranks, said = int(sys.argv[1]), json.load(open(sys.argv[2]))
assert said["complete"] is True and said["output"] == "j.toml"
assert [r["rank"] for r in said["ranks"]] == list(range(ranks))
assert len(said["devices"]) == ranks and len(said["kinds"]) == 1 and len(said["links"]) == 1
kind, link = said["kinds"][0], said["links"][0]
assert kind["kind"] == "cpu" and kind["fp32_flops"] > 1e8 and kind["copy_inside"] > 1e7
assert (link["from"], link["to"]) == ((0, 1) if ranks > 1 else (0, 0))
assert link["there"] > 1e6 and link["back"] > 1e6 and 0 < link["latency"] < 1
PYTHON
  fi
done

# What was found is trained on: two devices and a server, as the plan's own line starts them.
"$hetpipe" plan --cluster c2.toml --profile profile.toml --minibatch 8 --output plan.toml > out || fail "plan of c2.toml"
says "hetpipe train --plan plan.toml --cluster c2.toml" out

# --- what cannot be ----------------------------------------------------------------------------------
rm -f none.toml
for ranks in 1 3; do
  run 2 mpirun --oversubscribe -n $ranks "$hetpipe" probe --seconds 0.5 --device cpu --output no/such/folder.toml
  [ "$(grep -c 'there is no folder no/such' err)" -eq 1 ] || fail "$ranks ranks: not said once: $(cat err)"
done
run 2 "$hetpipe" probe --seconds 0 --output none.toml
says "--seconds: '0'" err
run 2 "$hetpipe" probe --device gpu --output none.toml
says "Give one of auto, cpu, cuda" err
run 2 mpirun --oversubscribe -n 1 "$hetpipe" probe --seconds 1 --output none.toml : -n 1 "$hetpipe" probe --seconds 2 --output none.toml
says "started with --seconds 2" err
if ! "$hetpipe" --version | grep -q 'device cuda: .*GPUs'; then

  run 3 mpirun --oversubscribe -n 2 "$hetpipe" probe --device cuda --output none.toml
  [ "$(grep -c 'device cuda: no rank sees a GPU' err)" -eq 1 ] || fail "--device cuda: $(cat err)"
  run 0 "$hetpipe" probe --seconds 0.5 --output auto.toml
  says "note: no GPU, so the CPUs are used." out
  planned auto.toml 1
fi
[ ! -e none.toml ] || fail "a cluster file was written although the command was refused"
exit $failed
