// SPDX-License-Identifier: Apache-2.0
#include "launch/sbatch/script.h"

#include <algorithm>

#include "base/text.h"
#include "launch/command/shell_words.h"

namespace hetpipe {
namespace {

// Slurm takes quotes and backslashes in these lines as a shell does.
std::string sbatch_line(const std::string& option) {
  return "#SBATCH " + shell_words({option}) + "\n";
}

// What one component of a job asks for.
std::string class_lines(const NodeClass& of, const std::string& nodes, int threads) {
  std::string text = sbatch_line("--nodes=" + nodes);
  text += sbatch_line(format("--ntasks-per-node=%d", of.ranks()));
  if (threads > 1) text += sbatch_line(format("--cpus-per-task=%d", threads));
  std::vector<std::string> gpus;
  for (const auto& [type, count] : of.gpus_of) {
    gpus.push_back(format("gpu:%s%d", type.empty() ? "" : (type + ":").c_str(), count));
  }
  if (!gpus.empty()) text += sbatch_line("--gres=" + join(gpus, ","));
  return text;
}

std::string common_lines(const BatchJob& job) {
  std::string text = sbatch_line("--job-name=" + job.name);
  if (!job.partition.empty()) text += sbatch_line("--partition=" + job.partition);
  text += sbatch_line("--time=" + job.time);
  for (const std::string& line : job.more) text += sbatch_line(line);
  return text;
}

std::string range(const BatchJob& job) {
  return job.least_nodes == job.most_nodes ? std::to_string(job.most_nodes)
                                           : format("%d-%d", job.least_nodes, job.most_nodes);
}

std::string resource_lines(const BatchJob& job) {
  std::string text;
  switch (job.shape) {
    case JobShape::alike:
      text += common_lines(job);
      text +=
          "# One task for each GPU.\n" + class_lines(job.classes.front(), range(job), job.threads);
      break;
    case JobShape::whole_nodes:
      text += common_lines(job);
      text +=
          "# Whole nodes, with all their GPUs: one request cannot name the GPUs of nodes that "
          "differ.\n"
          "# Starts on any number of nodes in this range.\n";
      text += sbatch_line("--nodes=" + range(job));
      text += sbatch_line("--exclusive");
      text += sbatch_line("--mem=0");
      break;
    case JobShape::heterogeneous:
      text += "# One component for each type of node.\n";
      for (std::size_t c = 0; c < job.classes.size(); ++c) {
        const NodeClass& of = job.classes[c];
        if (c > 0) text += sbatch_line("hetjob");
        text += common_lines(job) + class_lines(of, std::to_string(of.nodes.size()), job.threads);
        if (of.gpus() == 0) text += sbatch_line("--nodelist=" + join(of.nodes, ","));
      }
      break;
  }
  if (!job.left_out.empty() && job.shape != JobShape::heterogeneous) {
    text += sbatch_line("--exclude=" + join(job.left_out, ","));
  }
  return text;
}

// What makes an interruption harmless; of a heterogeneous job said once, before its components.
std::string interruption_lines(const BatchJob& job) {
  std::string text = "# May be interrupted at any time; resumes on the nodes that it gets next.\n";
  text += sbatch_line("--requeue");
  text += sbatch_line("--open-mode=append");
  if (!job.folder.empty()) text += sbatch_line("--chdir=" + job.folder);
  text += sbatch_line(format("--signal=%sUSR1@%d", job.mpirun ? "B:" : "", job.notice_seconds));
  const std::string log = job.array.empty() ? "%x-%j.log" : "%x-%A_%a.log";
  text += sbatch_line("--output=" + log);
  if (!job.array.empty()) text += sbatch_line("--array=" + job.array);
  return text;
}

std::string launch_lines(const BatchJob& job) {
  const std::string train = "\"${train[@]}\"";
  const std::string cores = job.threads > 1 ? format(" --cpus-per-task=%d", job.threads) : "";
  if (job.shape == JobShape::heterogeneous) {
    return format("  srun --mpi=pmix --kill-on-bad-exit=1 --het-group=0-%zu%s %s &\n",
                  job.classes.size() - 1, cores.c_str(), train.c_str());
  }
  const std::string places = format(
      "  # Ranks per node: one for each GPU, one for a parameter server on a node without "
      "GPUs.\n"
      "  \"$hetpipe\" allocation%s --hosts \"$run/hosts\"%s || exit\n",
      job.pool.empty() ? "" : " --pool \"$pool\"", job.mpirun ? " --format openmpi" : "");
  if (job.mpirun) {
    return places + format(
                        "  ranks=$(awk -F= '{ n += $2 } END { print n }' \"$run/hosts\")\n"
                        "  mpirun --hostfile \"$run/hosts\" -np \"$ranks\"%s %s &\n",
                        job.threads > 1 ? " --bind-to none" : "", train.c_str());
  }
  return places +
         format(
             "  SLURM_HOSTFILE=$run/hosts srun --mpi=pmix --kill-on-bad-exit=1 "
             "--distribution=arbitrary%s \\\n    --ntasks=\"$(wc -l < \"$run/hosts\")\" %s &\n",
             cores.c_str(), train.c_str());
}

std::string run_directory(const BatchJob& job) {
  if (!job.output.empty()) {
    return shell_words({job.output}) + (job.array.empty() ? "" : "-$SLURM_ARRAY_TASK_ID");
  }
  return shell_words({"runs/" + job.name}) +
         (job.array.empty() ? "-$SLURM_JOB_ID" : "-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID");
}

constexpr const char* kLoop = R"SH(
# The newest checkpoint: an attempt without progress leaves it as it was.
newest() { find "$run/checkpoints" -name 'checkpoint-*.h5' 2> /dev/null | sort | tail -n 1; }

# A request to stop (before the time limit, or by hand) is passed on to the training, which writes a checkpoint.
pass_on() { [ -z "${training:-}" ] || kill -USR1 "$training" 2> /dev/null; }
trap pass_on USR1
ended=
trap 'ended=yes' TERM  # from Slurm, which also signals the training: this script waits for it to end

mkdir -p "$run" || exit 3
echo "job ${SLURM_JOB_ID}, start $((${SLURM_RESTART_COUNT:-0} + 1)), on ${SLURM_JOB_NODELIST}"
fruitless=0
while :; do
  before=$(newest)
)SH";

// Slurm 22.05's srun may hang once a heterogeneous step is done, deaf to TERM.
constexpr const char* kHungSrun =
    R"SH(  # srun may hang after a heterogeneous step has ended: kill it, and let the next attempt find what is left to do.
  (
    gone=0
    while sleep 10 && kill -0 "$training" 2> /dev/null; do
      if squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i | grep -q '\.[0-9]*$'; then gone=0; else gone=$((gone + 1)); fi
      [ "$gone" -lt 3 ] || kill -KILL "$training"
    done
  ) &
)SH";

constexpr const char* kAfter = R"SH(  wait "$training"
  code=$?
  while kill -0 "$training" 2> /dev/null; do  # a signal interrupted the wait, not the training
    wait "$training"
    code=$?
  done
  training=

  case $code in
    0) exit 0 ;;
    4) exit 4 ;;  # numerical failure: it would fail again
    2) [ -n "$before" ] || exit 2 ;;  # a mistake; but after a checkpoint, a problem of these nodes
    75)  # stopped on request, with a checkpoint: requeue, and resume on the nodes it gets next
      [ -z "$ended" ] || exit 75  # Slurm is requeueing it, or the job was cancelled
      scontrol requeue "$SLURM_JOB_ID" || { echo "submit this script again to resume in $run"; exit 75; }
      sleep 300  # until Slurm ends this script
      exit 75
      ;;
  esac

  # System failure. If a node died, Slurm will requeue this job; otherwise try again on the same nodes.
  if [ -n "$ended" ]; then
    echo "exit code $code; Slurm is ending this job"
    exit "$code"
  fi
  if [ "$(newest)" = "$before" ]; then fruitless=$((fruitless + 1)); else fruitless=0; fi
  if [ "$fruitless" -ge "$attempts" ]; then
    echo "$attempts attempts in a row made no progress (last exit code $code)"
    exit "$code"
  fi
  # Slurm may refuse a step or two whose number it has seen before; later it needs time to notice a lost node.
  pause=$((fruitless < 4 ? 1 : 5 << (fruitless - 4)))
  echo "exit code $code: another attempt in $pause s"
  sleep $pause & wait $!
done
)SH";

}  // namespace

int NodeClass::gpus() const {
  int sum = 0;
  for (const auto& [type, count] : gpus_of) sum += count;
  return sum;
}

std::vector<NodeClass> node_classes(const std::vector<AllocatedNode>& nodes) {
  std::vector<NodeClass> classes;
  for (const AllocatedNode& node : nodes) {
    std::map<std::string, int> gpus;
    for (const std::string& type : node.gpus) ++gpus[type];
    auto known = std::find_if(classes.begin(), classes.end(),
                              [&](const NodeClass& of) { return of.gpus_of == gpus; });
    if (known == classes.end()) {
      known = classes.insert(classes.end(), NodeClass{.nodes = {}, .gpus_of = gpus});
    }
    known->nodes.push_back(node.name);
  }
  std::stable_partition(classes.begin(), classes.end(),
                        [](const NodeClass& of) { return of.gpus() > 0; });
  return classes;
}

std::string script_of(const BatchJob& job) {
  std::string text = "#!/bin/bash\n";
  text += "# Trains on whatever nodes this job is given, with a plan for them at every start.\n";
  text += "# Written by: " + job.written_by + "\n";
  text += interruption_lines(job) + resource_lines(job);
  text += "\nset -u\n";
  text += "hetpipe=" + shell_words({job.program}) + "\n";
  if (!job.pool.empty()) {
    text += "pool=" + shell_words({job.pool}) + "  # device types, links\n";
  }
  text += "run=" + run_directory(job) + "  # configuration, log, checkpoints, trace\n";
  text += format("attempts=%d\n", job.attempts);
  // Those of the first node, which other nodes would inherit.
  if (job.shape == JobShape::whole_nodes) text += "unset CUDA_VISIBLE_DEVICES\n";
  text += "train=(\"$hetpipe\" train --cluster slurm";
  if (!job.pool.empty()) text += " --pool \"$pool\"";
  text += " --output \"$run\" --resume auto";
  if (!job.array.empty()) text += " --seed \"$SLURM_ARRAY_TASK_ID\"";
  text += "\n  " + shell_words(job.train) + ")\n";
  text += kLoop + launch_lines(job) + "  training=$!\n";
  return text + (job.shape == JobShape::heterogeneous ? kHungSrun : "") + kAfter;
}

}  // namespace hetpipe
