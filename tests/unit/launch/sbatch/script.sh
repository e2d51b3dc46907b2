#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# script.sh HETPIPE [COUNT [SEED]]
# The script of `hetpipe sbatch`, run without Slurm: srun, scontrol and squeue are stand-ins that do what each case says.
# Scripts of every shape are checked by shellcheck first (SC2016: words are quoted on purpose). COUNT: also so many starts that
# get USR1 at a random moment (SEED), the training being slow to listen and slow to leave. Exit code 77: this machine cannot
# do it (the reason is printed).
set -uo pipefail
hetpipe=$1
count=${2:-0}
RANDOM=${3:-1}
command -v shellcheck > /dev/null || { echo "skipped: shellcheck is not installed"; exit 77; }
. "$(dirname "${BASH_SOURCE[0]}")/../../../main/patience.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
mkdir "$folder/bin"
cd "$folder" || exit 1
cat > pool.toml << 'POOL'
format = 1
[device.a]
memory = 1_000_000_000
[device.b]
memory = 1_000_000_000
[[node]]
name = "n[1-2]"
devices = ["a", "b"]
[[node]]
name = "n3"
devices = []
[link.intra_node]
bandwidth = 1e9
[link.inter_node]
bandwidth = 1e9
POOL

# --- programs: what happened goes to $CASE/events, one line each -------------------------------------------------------
program() { { echo '#!/bin/bash'; cat; } > "bin/$1"; chmod +x "bin/$1"; }
program sinfo << 'DO'
exit 1
DO
program hetpipe << 'DO'
[ "$1" = allocation ] || exit 99
while [ $# -gt 1 ]; do [ "$1" != --hosts ] || printf 'n1\nn2\n' > "$2"; shift; done
. "$CASE/allocation"
DO
program srun << 'DO'
[ "$1" != --mpi=list ] || exit 1
echo srun >> "$CASE/events"
checkpoint() { touch "$CASE/run/checkpoints/checkpoint-$(printf %08d "$1").h5"; }
. "$CASE/training"
DO
program scontrol << 'DO'
[ "$1" = requeue ] || exit 1
echo requeue >> "$CASE/events"
kill -KILL $PPID
DO
program squeue << 'DO'
date -d "+$(cat "$CASE/left") seconds" +%FT%T
DO
export PATH=$folder/bin:$PATH

write() { # NAME [OPTION of sbatch...] -- [OPTION of train...]
  local name=$1
  shift
  (exec -a "$folder/bin/hetpipe" "$hetpipe" sbatch --cluster pool.toml --script "$name.sh" "$@") > said 2>&1 || { cat said; exit 1; }
}
training=(--model lenet --data 'my $(data)' --output run)
write plain --notice 60 --attempts 3 -- "${training[@]}"
write alike --sbatch=--comment="it's" --name 'my $(touch X) run' -- --model lenet --data d
write parts --heterogeneous -- "${training[@]}" --threads 2
write under_mpirun --launcher mpirun -- "${training[@]}"
write array --array 0-4 -- "${training[@]}"
: > 'an image.sif'
echo 'SET_UP=yes' > 'set $(up)'
write contained --setup 'set $(up)' --setup 'export SET_UP="$SET_UP, as it is"' --container 'an image.sif' -- "${training[@]}"
write slow_setup --setup 'echo job 17; touch "$CASE/now"; sleep 1' -- "${training[@]}"
write in_pyxis --container nvcr.io#lab/hetpipe --container-runtime pyxis -- "${training[@]}"
failed=0
for script in *.sh; do shellcheck --exclude=SC2016 "$script" || failed=1; done

# --- cases ----------------------------------------------------------------------------------------------------------------
# start RESTARTS [now|SECONDS]: the script, as Slurm starts it; its exit code, 137 where it was requeued. USR1 comes when a
# stand-in says now, or so many seconds after the start.
start() {
  local code=0 pid
  sed "s|^run=.*|run=$CASE/run|" "${shape:-plain}.sh" > "$CASE/job.sh"
  SLURM_JOB_ID=17 SLURM_RESTART_COUNT=$1 SLURM_JOB_NODELIST='n[1-2]' bash "$CASE/job.sh" >> "$CASE/said" 2>&1 &
  pid=$!
  if [ $# -gt 1 ]; then
    within 20 "start" grep -q '^job 17' "$CASE/said" || exit 1
    if [ "$2" = now ]; then within 20 "moment" test -e "$CASE/now" || exit 1; else sleep "$2"; fi
    kill -USR1 $pid 2> /dev/null
  fi
  within 20 "end of the script" eval "! kill -0 $pid" || { kill -KILL $pid; exit 1; }
  { wait $pid || code=$?; } 2> /dev/null
  return $code
}
expect() { # WHAT IS SHOULD
  [ "$2" = "$3" ] || { echo "$CASE: $1: '$2', and not '$3'"; cat "$CASE/events" "$CASE/said"; exit 1; }
}
events() { paste -sd ' ' "$CASE/events"; }
said() { grep -qE -- "$1" "$CASE/said" || expect "said" "something else" "$1"; }
new() { # NAME [CHECKPOINTS]
  CASE=$folder/$1
  export CASE
  mkdir -p "$CASE/run/checkpoints"
  : > "$CASE/events"
  : > "$CASE/allocation"
  echo 1000 > "$CASE/left"
  [ -z "${2:-}" ] || touch "$CASE/run/checkpoints/checkpoint-00000001.h5"
}

set_up_before_the_ranks_start() {
  new set_up_before_the_ranks_start
  echo 'echo "$SET_UP" >> "$CASE/events"' > "$CASE/training"
  shape=contained start 0
  expect "exit code" $? 0
  expect "what happened" "$(events)" "srun yes, as it is"
}
asked_during_the_setup() {
  new asked_during_the_setup with
  shape=slow_setup start 0 now
  expect "what happened" "$(events)" requeue
}
asked_during_the_allocation() {
  new asked_during_the_allocation with
  echo 'touch "$CASE/now"; sleep 1' > "$CASE/allocation"
  echo 'exit 0' > "$CASE/training"
  start 0 now
  expect "what happened" "$(events)" requeue
}
asked_before_the_launcher_listens() {  # whose shell USR1 would end
  new asked_before_the_launcher_listens with
  echo 'touch "$CASE/now"; sleep 0.5; trap "checkpoint 2; exit 75" USR1; while :; do sleep 0.1; done' > "$CASE/training"
  start 0 now
  expect "what happened" "$(events)" "srun requeue"
}
asked_before_the_ranks_listen() {
  new asked_before_the_ranks_listen with
  echo 'sleep 2; trap "exit 138" USR1; touch "$CASE/now"; while :; do sleep 0.1; done' > "$CASE/training"
  start 0 now
  expect "what happened" "$(events)" "srun requeue"
}
asked_of_the_ranks_alone() {  # scancel without --batch
  new asked_of_the_ranks_alone with
  echo 'echo "srun: error: n1: task 0: User defined signal 1" >&2; exit 143' > "$CASE/training"
  start 0
  expect "what happened" "$(events)" "srun requeue"
}
failed_when_asked() {
  new failed_when_asked with
  echo 'trap "sleep 0.5; exit 3" USR1; touch "$CASE/now"; while :; do sleep 0.1; done' > "$CASE/training"
  start 0 now
  expect "what happened" "$(events)" "srun requeue"
  said '^exit code 3 when asked to stop$'
}
asked_between_attempts() {
  new asked_between_attempts with
  echo '[ ! -e "$CASE/tried" ] || touch "$CASE/now"; touch "$CASE/tried"; exit 3' > "$CASE/allocation"
  start 0 now
  expect "what happened" "$(events)" requeue
}
three_requeues_without_progress() {
  new three_requeues_without_progress with
  echo 'exit 75' > "$CASE/training"
  start 0
  start 1
  echo 'checkpoint 2; exit 75' > "$CASE/training"
  start 2  # progress
  echo 'exit 75' > "$CASE/training"
  start 3
  start 4
  expect "what happened" "$(events)" "srun requeue srun requeue srun requeue srun requeue srun requeue"
  start 5
  expect "exit code" $? 3
  expect "what happened at last" "$(tail -n 1 "$CASE/events")" srun
  said '^This is start 3 in a row that wrote no newer checkpoint \(the newest: .*checkpoint-00000002.h5 .*\): the job ends'
}
waves_longer_than_the_notice() {
  new waves_longer_than_the_notice with
  echo 'trap "" USR1; touch "$CASE/now"; while kill -0 $PPID; do sleep 0.1; done 2> /dev/null' > "$CASE/training"
  echo 17 > "$CASE/left"  # from which the script keeps 15 to requeue
  start 0 now
  expect "what happened" "$(events)" "srun requeue"
  said 'has not stopped in the [0-9]* s since .*: its waves are longer than --notice 60 allows. Give .* a longer --notice'
}
no_checkpoint_within_the_notice() {
  new no_checkpoint_within_the_notice
  echo 'trap "" USR1; touch "$CASE/now"; while kill -0 $PPID; do sleep 0.1; done 2> /dev/null' > "$CASE/training"
  echo 17 > "$CASE/left"
  start 0 now
  expect "exit code" $? 3
  expect "what happened" "$(events)" srun
  said 'There is no checkpoint to resume from: the job ends'
}
launcher_refuses() { # as srun of Slurm 22.05 says it
  new launcher_refuses
  echo "echo \"srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types\" >&2; exit 1" > "$CASE/training"
  start 0
  expect "exit code" $? 2
  expect "what happened" "$(events)" srun
}
launcher_fails_alike_twice() {
  new launcher_fails_alike_twice with
  echo 'echo "srun: error: step 17.$RANDOM: out of luck" >&2; exit 1' > "$CASE/training"
  start 0
  expect "exit code" $? 3
  expect "what happened" "$(events)" "srun srun"
}
ranks_not_started_and_code_0() { # as srun of Slurm 22.05 ends where a node has just come back
  new ranks_not_started_and_code_0 with
  echo '[ "$(wc -l < "$CASE/events")" -gt 2 ] || echo "srun: error: task 2 launch failed: Unspecified error" >&2; exit 0' > "$CASE/training"
  start 0
  expect "exit code" $? 0
  expect "what happened" "$(events)" "srun srun srun"
  said 'returned 0 after errors: not taken for the end of the training'
}
errors_beside_the_end() {
  new errors_beside_the_end with
  echo 'echo {} > "$CASE/run/result.json"; echo "srun: error: node n2: gone" >&2; exit 0' > "$CASE/training"
  start 0
  expect "exit code" $? 0
  expect "what happened" "$(events)" srun
}
steps_refused_for_their_number() { # in passing, as Slurm 22.05 does
  new steps_refused_for_their_number
  echo '[ "$(wc -l < "$CASE/events")" -gt 2 ] || { echo "srun: error: task 2 launch failed: Unspecified error" >&2; exit 1; }' > "$CASE/training"
  start 0
  expect "exit code" $? 0
  expect "what happened" "$(events)" "srun srun srun"
}
second_job_on_a_live_run() {
  new second_job_on_a_live_run with
  echo 'of the first job' > "$CASE/run/hosts"
  echo 'echo "--output run: is in use by another run (process 5 on n1). Wait for it to end, or give another --output." >&2; exit 2' > "$CASE/training"
  start 0
  expect "exit code" $? 2
  expect "what happened" "$(events)" srun
  expect "hosts of the first job" "$(cat "$CASE/run/hosts")" 'of the first job'
}
ranks_killed_after_the_first_left() { # as srun of Slurm 22.05 says it, which returns the highest code
  new ranks_killed_after_the_first_left with
  cat > "$CASE/training" << 'DO'
cat >&2 << 'SAID'
--output run: is in use by another run (process 5 on n1). Wait for it to end, or give another --output.
srun: error: n1: task 0: Exited with exit code 2
srun: launch/slurm: _step_signal: Terminating StepId=17.0
srun: error: n2: tasks 2-3: Killed
SAID
exit 137
DO
  start 0
  expect "exit code" $? 2
  expect "what happened" "$(events)" srun
}
first_rank_killed() {
  new first_rank_killed with
  echo 'echo "srun: error: n1: task 0: Killed
srun: error: n2: tasks 2-3: Exited with exit code 3" >&2; exit 137' > "$CASE/training"
  start 0
  expect "exit code" $? 137
  expect "what happened" "$(events)" "srun srun srun"
  said '3 attempts in a row made no progress \(last exit code 137\)'
}
requeued_while_another_job_trains() { # whose checkpoints are no progress of this one
  new requeued_while_another_job_trains with
  cat > "$CASE/training" << 'DO'
checkpoint "$(date +%s)"
echo "--output run: is in use by another run (process 5 on n1). Wait for it to end, or give another --output." >&2
sleep 1
exit 2
DO
  start 1
  start 2
  start 3
  expect "exit code" $? 3
  expect "what happened" "$(events)" "srun requeue srun requeue srun"
}
mistake_after_a_start_that_worked() { # nodes without the data, say
  new mistake_after_a_start_that_worked with
  echo 'exit 2' > "$CASE/training"
  start 1
  expect "what happened" "$(events)" "srun requeue"
}

cases=$(declare -F | sed -n 's/^declare -f //p' | grep _)
for case in $cases; do ("$case") > "$case.result" 2>&1 & echo "$case $!" >> pids; done
while read -r case pid; do wait "$pid" || { echo "FAILED: $case"; cat "$case.result"; failed=1; }; done < pids

# --- at random moments -------------------------------------------------------------------------------------------------------
for n in $(seq "$count"); do
  new "random_$n" with
  cat > "$CASE/training" << 'DO'
sleep 0.$((RANDOM % 10))
trap 'sleep 0.$((RANDOM % 10)); checkpoint 2; exit 75' USR1
for _ in {1..300}; do sleep 0.1; done
exit 0
DO
  echo 'sleep 0.$((RANDOM % 5))' > "$CASE/allocation"
  start 0 $((RANDOM % 4)).$((RANDOM % 10))$((RANDOM % 10))
  [ "$(tail -n 1 "$CASE/events")" = requeue ] && [ "$(grep -c srun "$CASE/events")" -le 1 ] ||
    { echo "FAILED: $CASE: $(events)"; cat "$CASE/said"; failed=1; }
done
exit $failed
