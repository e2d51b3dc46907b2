#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# unattended.sh HETPIPE SOURCE_DIR [ROUNDS [SEED]]
# Trainings under launch/supervise, which nobody looks after, disturbed at random moments: ranks that are killed or stopped, a
# byte of the newest checkpoint that is flipped (and then a rank that is killed, or two, or mpirun), and further faults while it
# starts again. Each ends with code 0 and the bits of a training that nobody disturbed.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
rounds=${3:-3}
RANDOM=${4:-1}
. "$source/tests/main/patience.sh"
command -v mpirun > /dev/null || { echo "skipped: mpirun is not installed"; exit 77; }

folder=$(mktemp -d)
supervisor=
clean_up() {
  local code=$?
  trap - EXIT
  [ -z "$supervisor" ] || kill -KILL -- "-$supervisor" 2> /dev/null || true
  pkill -KILL -f "^$hetpipe train .*--output $folder/" || true
  [ "$code" -ne 0 ] || rm -rf "$folder"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 143' INT TERM

mkdir "$folder/data"
. "$source/tests/main/small_mlp.sh"
images train 512
images t10k 32
this=$(uname -n)
cat > "$folder/pool.toml" << POOL
format = 1
[device.small]
memory = 1_000_000_000
emulate = { slowdown = 1.0 }
[[node]]
name = "$this"
devices = ["small", "small", "small"]
[link.intra_node]
bandwidth = 10e9
POOL
echo "$this slots=3" > "$folder/hosts.txt"

start() { # NAME: the training, in a process group of its own
  run=$folder/$1
  setsid "$source/launch/supervise" --hosts "$folder/hosts.txt" --pause 1 --grace 5 -- "$hetpipe" train --pool "$folder/pool.toml" \
    --profile "$folder/profile.toml" --model mlp --data "$folder/data" --device cpu --minibatch 16 --policy np --in-flight 2 \
    --checkpoint-every 3 --keep 3 --epochs 8 --timeout 8 --trace off --output "$run" > "$run.said" 2>&1 &
  supervisor=$!
}
ends() { # with code 0
  local code=0
  within 120 "end of the training" eval "! kill -0 $supervisor" || { echo "$run: has not ended"; tail -n 20 "$run.said"; exit 1; }
  wait "$supervisor" || code=$?
  supervisor=
  [ $code -eq 0 ] || { echo "$run: exit code $code"; tail -n 20 "$run.said"; exit 1; }
}
ranks() { pgrep -f "^$hetpipe train .*--output $run( |\$)" || true; }
checkpoints() { { find "$run/checkpoints" -name 'checkpoint-*.h5' 2> /dev/null || true; } | sort; }
newest() { checkpoints | tail -n 1; }
send() { # SIGNAL: to a rank; fails where there is none
  local all
  read -ra all <<< "$(ranks | xargs)"
  [ ${#all[@]} -gt 0 ] && kill "-$1" "${all[RANDOM % ${#all[@]}]}" 2> /dev/null
}
flip() { # FILE OFFSET: the lowest bit of a byte
  local byte
  byte=$(dd if="$1" bs=1 skip="$2" count=1 2> /dev/null | od -An -tu1)
  printf '%b' "$(printf '\\x%02x' $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" count=1 conv=notrunc,nocreat 2> /dev/null
}
nap() { sleep "$((RANDOM % $1)).$((RANDOM % 10))"; }

disturb() {
  local what=$((RANDOM % 6)) file offset mpirun
  case $what in
    0) echo -n " kill"; send KILL || true ;;
    1) echo -n " stop"; send STOP || true ;;
    2) echo -n " kill-two"; send KILL || true; send KILL || true ;;
    3)
      echo -n " kill-mpirun"
      mpirun=$(pgrep -f "^mpirun .*--output $run( |\$)" | head -n 1) || true
      [ -z "$mpirun" ] || kill -KILL "$mpirun" 2> /dev/null || true
      ;;
    *)
      echo -n " flip-and-kill"
      [ "$(checkpoints | wc -l)" -gt 1 ] || return 0  # without an intact one nobody could go on
      file=$(newest)
      offset=$((RANDOM * 32768 + RANDOM))
      offset=$((offset % $(stat --format=%s "$file" 2> /dev/null || echo 1)))
      flip "$file" "$offset" 2> /dev/null || return 0
      # Whoever is through already has left this checkpoint as the last one.
      send KILL || flip "$file" "$offset" 2> /dev/null || true
      ;;
  esac
}

start undisturbed
ends
whole=$(newest)

for ((round = 1; round <= rounds; ++round)); do
  start "round-$round"
  echo -n "round $round:"
  for ((n = 1 + RANDOM % 3; n > 0; --n)); do
    # Once there is something to lose, or at any moment, which may be that of another start.
    [ $((RANDOM % 2)) -eq 0 ] || within 60 "checkpoint of $run" eval '[ -n "$(newest)" ] || ! kill -0 "$supervisor"'
    nap 2
    disturb
  done
  ends
  "$hetpipe" checkpoint diff "$whole" "$(newest)" > "$run.diff" 2>&1 ||
    { echo; echo "$run ended with other bits:"; cat "$run.diff"; tail -n 40 "$run.said"; exit 1; }
  echo "; $(grep -c '^== attempt' "$run.said" || true) further attempts, the same bits"
  rm -rf "$run" "$run.said" "$run.diff"
done
echo "$rounds rounds, the same bits in each"
