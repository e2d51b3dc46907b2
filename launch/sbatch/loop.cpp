// SPDX-License-Identifier: Apache-2.0
#include "launch/sbatch/loop.h"

#include "base/text.h"

namespace hetpipe {
namespace {

constexpr const char* kRequests = R"SH(
# The newest checkpoint with its time, empty where there is none: progress is one that sorts after it.
newest() { find "$run/checkpoints" -name 'checkpoint-*.h5' -printf '%p %T@\n' 2> /dev/null | sort | tail -n 1; }
result() { stat --format='%i %y' "$run/result.json" 2> /dev/null; }  # which one; a training writes it when it ends
log_bytes() { stat --format=%s "$run/train.log" 2> /dev/null || echo 0; }

# A request to stop (before the time limit, or by hand) is passed on to the training, which writes a checkpoint.
training=  # process of its launcher
signals=0
pass_on() {
  signals=$((signals + 1))
  if [ -z "$stopping" ]; then
    stopping=yes
    asked=$SECONDS
    watch_limit < /dev/null > /dev/null 2>&1 &
  fi
  [ -z "$training" ] || kill -USR1 "$training" 2> /dev/null
}
ended=  # by Slurm, which also signals the training: this script waits for it to end
late=   # Slurm will soon end the job for good, and the training has not stopped
trap pass_on USR1
trap 'signals=$((signals + 1)) ended=yes' TERM
trap 'signals=$((signals + 1)) late=yes' ALRM

# Sends ALRM some seconds before the time limit.
watch_limit() {
  local end left=$notice
  end=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%e | head -n 1)
  case $end in
    NONE | N/A | Unknown) return ;;  # no limit
    ?*) left=$(($(date -d "$end" +%s) - $(date +%s))) ;;
  esac
  left=$((left - (notice < 60 ? notice / 4 : 15)))
  while [ "$left" -gt 0 ] && kill -0 $$; do
    sleep 1
    left=$((left - 1))
  done
  kill -ALRM $$
}

# Waits until a process has ended, also when signals arrive; returns its exit code.
await() {
  local code before
  until [ -n "$late" ]; do
    before=$signals
    wait "$1"
    code=$?
    [ "$signals" -ne "$before" ] || return "$code"
  done
  return 1
}
)SH";

constexpr const char* kRequeue = R"SH(
# newer CHECKPOINT THAN: the last attempt, or those of this start, made progress. Not so where another job trains in this
# directory: then the newer checkpoints are its own.
newer() { [[ $1 > $2 ]] && ! grep -q 'is in use by another run' "$own/said"; }

# requeue WHY: resumes later, on the nodes that the job gets then. The third time in a row without a newer checkpoint ends it.
requeue() {
  local job='' count=0 last='' now
  now=$(newest)
  read -r job count last 2> /dev/null < "$run/requeues"
  if [ "$job" != "$SLURM_JOB_ID" ]; then
    count=0
    last=$at_start
  fi
  if newer "$now" "$last"; then count=0; else count=$((count + 1)); fi
  echo "$1"
  if [ "$count" -ge 3 ]; then
    echo "This is start $count in a row that wrote no newer checkpoint (the newest: ${now:-none}): the job ends. Submit it again once the cause is mended."
    rm -f "$run/requeues"
    exit 3
  fi
  echo "$SLURM_JOB_ID $count $now" > "$run/requeues" || exit 3
  rm -rf "$own"
  scontrol requeue "$SLURM_JOB_ID" || {
    echo "submit this script again to resume in $run"
    exit 75
  }
  sleep 300  # until Slurm ends this script
  exit 75
}

# What the launcher alone has printed, without numbers, if the training has not begun and this says nothing of nodes or connections.
refusal() {
  [ "$(log_bytes)" = "$logged" ] || return
  ! grep -qvE '^(srun|slurmstepd)[^ ]*: ' "$own/said" || return
  ! grep -qiE 'launch failed|node|communicat|connect|timed? ?out|respond|busy|socket|expired|signal|killed' "$own/said" || return
  tr -d 0-9 < "$own/said" | sort
}
# srun returns 143 or 137 where it has ended ranks that left later than the first. This is the first one's code, if it has a
# meaning of its own here.
first_code() { sed -n 's/^srun: error: .*: Exited with exit code \([0-9]*\)$/\1/p' "$own/said" | head -n 1 | grep -xE '2|4|75'; }
# What another attempt cannot change.
launcher_refuses() {
  [ "$code" -eq 126 ] || [ "$code" -eq 127 ] || grep -qE "$refused" "$own/said"
}
refused='^srun: .*(Invalid MPI type|unrecognized option|invalid option|More processors requested than permitted)
^srun: .*(Requested node configuration is not available|Invalid generic resource)|execve\(\):
^mpirun: Error: unknown option|not enough slots available|mpirun was unable to (find|launch) the specified'
)SH";

constexpr const char* kLoop = R"SH(
mkdir -p "$run" && own=$(mktemp -d) || exit 3  # own: files of this start
trap 'rm -rf "$own"' EXIT
echo "job ${SLURM_JOB_ID}, start $((${SLURM_RESTART_COUNT:-0} + 1)), on ${SLURM_JOB_NODELIST}"
at_start=$(newest)
attempt=0
fruitless=0
worked=  # an attempt of this start has written checkpoints
refusal_before=
while :; do
  attempt=$((attempt + 1))
  before=$(newest)
  logged=$(log_bytes)
  result_before=$(result)
  : > "$own/said"
  [ -z "$ended" ] || exit 75
  [ -z "$stopping" ] || requeue "asked to stop between two attempts"
  launch
  code=$?
  training=
  now=$(newest)
  case $code in
    137 | 143) reason=$(first_code) && code=$reason ;;
  esac

  case $code in
    0)  # done; or ranks that srun could not start, when it returns 0 too: another attempt finds out what is left to do
      [ "$(result)" = "$result_before" ] || exit 0
      grep -qE '^(srun|slurmstepd[^ ]*): error: ' "$own/said" || exit 0
      echo "the launcher returned 0 after errors: not taken for the end of the training"
      code=3
      ;;
    4) exit 4 ;;  # a numerical failure, which would come again
  esac
  if [ -n "$ended" ]; then  # Slurm is requeueing the job, or it was cancelled
    echo "exit code $code; Slurm is ending this job"
    exit "$code"
  fi
  if [ -n "$late" ]; then
    why="The training has not stopped in the $((SECONDS - asked)) s since it was asked to: its waves are longer than --notice $notice allows. Give hetpipe sbatch a longer --notice."
    [ -n "$now" ] || {
      echo "$why There is no checkpoint to resume from: the job ends."
      exit 3
    }
    requeue "$why Until then, what follows $now is computed again."
  fi
  if launcher_refuses; then
    echo "exit code $code: the launcher refuses to start ranks, and would again on these nodes. Its reason is above."
    code=2
  fi
  if [ "$code" -eq 2 ]; then  # a mistake; but after a start or an attempt that worked, something about these nodes
    [ -n "$before" ] && { [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || [ -n "$worked" ]; } || exit 2
    requeue "exit code 2 on ${SLURM_JOB_NODELIST}, after a start that worked"
  fi
  [ "$code" -ne 75 ] || requeue "stopped on request"
  # 138: by USR1, before the training had begun to listen.
  if [ -n "$stopping" ] || [ "$code" -eq 138 ] || grep -q 'User defined signal 1' "$own/said"; then
    requeue "exit code $code when asked to stop"
  fi

  # System failure. If a node died, Slurm will requeue this job; otherwise try again on the same nodes.
  refusal_now=$(refusal)
  if [ -n "$refusal_now" ] && [ "$refusal_now" = "$refusal_before" ]; then
    echo "exit code $code: the launcher has failed twice in the same way, before any rank ran. Its reason is above."
    exit 3
  fi
  refusal_before=$refusal_now
  if newer "$now" "$before"; then fruitless=0 worked=yes; else fruitless=$((fruitless + 1)); fi
  if [ "$fruitless" -ge "$attempts" ]; then
    echo "$attempts attempts in a row made no progress (last exit code $code)"
    exit "$code"
  fi
  # Slurm may refuse a step or two whose number it has seen before; later it needs time to notice a lost node.
  pause=$((fruitless < 4 ? 1 : 5 << (fruitless - 4)))
  echo "exit code $code: another attempt in $pause s"
  sleep $pause &
  wait $!
done
)SH";

// Slurm 22.05's srun may hang once a heterogeneous step is done, deaf to TERM.
constexpr const char* kHungSrun = R"SH(
# srun may hang after a heterogeneous step has ended: kill it, and let the next attempt find what is left to do.
end_hung_srun() {
  local gone=0
  while sleep 10 && kill -0 "$training" 2> /dev/null; do
    if squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i | grep -q '\.[0-9]*$'; then gone=0; else gone=$((gone + 1)); fi
    [ "$gone" -lt 3 ] || kill -KILL "$training"
  done
}
)SH";

// The command that starts the ranks, but for what they run.
std::string launcher_of(const BatchJob& job) {
  std::string more = job.threads > 1 ? format(" --cpus-per-task=%d", job.threads) : "";
  if (job.container == Container::pyxis) {
    more +=
        " --container-image=\"$image\" --container-mounts=\"$mounts\" "
        "--container-workdir=\"$PWD\"";
  }
  if (job.shape == JobShape::heterogeneous) {
    return format("srun --mpi=pmix --kill-on-bad-exit=1 --het-group=0-%zu%s",
                  job.classes.size() - 1, more.c_str());
  }
  if (job.mpirun) {
    return format(
        "mpirun --hostfile \"$own/hosts\" -np \"$(awk -F= '{ n += $2 } END { print n }' "
        "\"$own/hosts\")\"%s",
        job.threads > 1 ? " --bind-to none" : "");
  }
  return format(
      "SLURM_HOSTFILE=$own/hosts srun --mpi=pmix --kill-on-bad-exit=1 --distribution=arbitrary%s "
      "\\\n    --ntasks=\"$(wc -l < \"$own/hosts\")\"",
      more.c_str());
}

std::string launch_function(const BatchJob& job) {
  const bool parts = job.shape == JobShape::heterogeneous;
  std::string text = parts ? kHungSrun : "";
  text += "\n# Starts the ranks and waits for them; returns the launcher's exit code.\n";
  text += "launch() {\n  local code launcher copy said\n";
  if (!parts) {
    text +=
        "  # Ranks per node: one for each GPU, one for a parameter server on a node without GPUs.\n"
        "  \"$hetpipe\" allocation";
    text += job.pool.empty() ? "" : " --pool \"$pool\"";
    text += job.mpirun ? " --hosts \"$own/hosts\" --format openmpi || return\n"
                       : " --hosts \"$own/hosts\" || return\n";
  }
  if (!parts) text += "  [ -z \"$stopping\" ] || return 75\n";
  text += "  exec {said}> >(trap '' USR1 TERM; exec tee \"$own/said\" >&2)\n  copy=$!\n  ";
  text += launcher_of(job) + " \"${train[@]}\" 2>&\"$said\" {said}>&- &\n";
  text +=
      "  launcher=$!\n"
      "  exec {said}>&-\n"
      "  sleep 1  # it does not listen to signals at once, but would end\n"
      "  training=$launcher\n"
      "  [ -z \"$stopping\" ] || kill -USR1 \"$training\" 2> /dev/null\n";
  if (parts) text += "  end_hung_srun &\n";
  text +=
      "  await \"$training\"\n"
      "  code=$?\n"
      "  for _ in {1..20}; do\n"
      "    kill -0 \"$copy\" 2> /dev/null || break\n"
      "    sleep 0.1\n"
      "  done\n"
      "  return \"$code\"\n"
      "}\n";
  return text;
}

}  // namespace

std::string loop_of(const BatchJob& job) {
  return kRequests + launch_function(job) + kRequeue + kLoop;
}

}  // namespace hetpipe
