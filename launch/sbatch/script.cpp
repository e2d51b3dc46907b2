// SPDX-License-Identifier: Apache-2.0
#include "launch/sbatch/script.h"

#include <algorithm>

#include "base/text.h"
#include "launch/command/shell_words.h"
#include "launch/sbatch/loop.h"

namespace hetpipe {
namespace {

// Slurm takes quotes and backslashes in these lines as a shell does.
std::string sbatch_line(const std::string& option) {
  return "#SBATCH " + shell_words({option}) + "\n";
}

// A name with the length of each number before it: sorted so, n9 comes before n10, as in the host
// lists of Slurm.
std::string with_lengths(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t stop = std::min(name.find_first_not_of("0123456789", i), name.size());
    if (stop == i) {
      text += name[i++];
      continue;
    }
    i = std::min(name.find_first_not_of('0', i), stop);
    text += static_cast<char>(stop - i);
    text += name.substr(i, stop - i);
    i = stop;
  }
  return text;
}

bool named_before(const std::string& a, const std::string& b) {
  return with_lengths(a) < with_lengths(b);
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
  bool first = true;
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
      text += "# One component for each type of node, in the order of their names.\n";
      for (const NodeClass& of : in_order_of_names(job.classes)) {
        if (!first) text += sbatch_line("hetjob");
        first = false;
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
  // To the script, which has to know of the request; it passes it on.
  text += sbatch_line(format("--signal=B:USR1@%d", job.notice_seconds));
  const std::string log = job.array.empty() ? "%x-%j.log" : "%x-%A_%a.log";
  text += sbatch_line("--output=" + log);
  if (!job.array.empty()) text += sbatch_line("--array=" + job.array);
  return text;
}

std::string run_directory(const BatchJob& job) {
  if (!job.output.empty()) {
    return shell_words({job.output}) + (job.array.empty() ? "" : "-$SLURM_ARRAY_TASK_ID");
  }
  return shell_words({"runs/" + job.name}) +
         (job.array.empty() ? "-$SLURM_JOB_ID" : "-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID");
}

std::string container_lines(const BatchJob& job) {
  std::string text = "image=" + shell_words({job.image}) + "  # in which the ranks run\n";
  std::vector<std::string> folders = job.mounted;
  const bool pyxis = job.container == Container::pyxis;
  if (pyxis) {
    for (std::string& folder : folders) folder += ":" + folder;
  }
  text += "mounts=" + shell_words({join(folders, ",")}) + "\n";
  if (!pyxis) {
    text +=
        "# Some versions of PMIx fail where its shared memory is in a folder that a container "
        "lacks.\n"
        "export PMIX_MCA_gds=hash\n";
  }
  return text;
}

// What each rank is, up to its own options. Slurm's commands are not in a container: its ranks see
// the nodes that they run on.
std::string program_of_ranks(const BatchJob& job) {
  switch (job.container) {
    case Container::none:
      return "\"$hetpipe\" train --cluster slurm";
    case Container::pyxis:
      return "hetpipe train --cluster ranks";
    case Container::apptainer:
    case Container::singularity:
      break;
  }
  return std::string(job.container == Container::apptainer ? "apptainer" : "singularity") +
         " exec --nv --pwd \"$PWD\" --bind \"$mounts\" \"$image\" hetpipe train --cluster ranks";
}

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

std::vector<NodeClass> in_order_of_names(std::vector<NodeClass> classes) {
  for (NodeClass& of : classes) std::sort(of.nodes.begin(), of.nodes.end(), named_before);
  std::stable_sort(classes.begin(), classes.end(), [](const NodeClass& a, const NodeClass& b) {
    return named_before(a.nodes.front(), b.nodes.front());
  });
  return classes;
}

std::vector<std::string> nodes_out_of_order(const std::vector<NodeClass>& classes) {
  std::vector<std::string> wrong;
  std::string last;
  for (const NodeClass& of : in_order_of_names(classes)) {
    for (const std::string& node : of.nodes) {
      if (!last.empty() && named_before(node, last))
        wrong.push_back(node);
      else
        last = node;
    }
  }
  return wrong;
}

std::string script_of(const BatchJob& job) {
  std::string text = "#!/bin/bash\n";
  text += "# Trains on whatever nodes this job is given, with a plan for them at every start.\n";
  text += "# Written by: " + job.written_by + "\n";
  text += interruption_lines(job) + resource_lines(job);
  text += "\nstopping=\ntrap 'stopping=yes' USR1  # which would end this script\n";
  if (!job.setup.empty()) text += "\n# By --setup.\n" + join(job.setup, "\n") + "\n";
  text += "\nset -u\n";
  text += "hetpipe=" + shell_words({job.program}) + "\n";
  if (!job.pool.empty()) {
    text += "pool=" + shell_words({job.pool}) + "  # device types, links\n";
  }
  text += "run=" + run_directory(job) + "  # configuration, log, checkpoints, trace\n";
  text += format("attempts=%d  # in a row without a newer checkpoint\n", job.attempts);
  text += format("notice=%d  # seconds from the signal to the time limit\n", job.notice_seconds);
  // Those of the first node, which other nodes would inherit.
  if (job.shape == JobShape::whole_nodes) text += "unset CUDA_VISIBLE_DEVICES\n";
  if (job.container != Container::none) text += container_lines(job);
  text += "train=(" + program_of_ranks(job);
  if (!job.pool.empty()) text += " --pool \"$pool\"";
  text += " --output \"$run\" --resume auto --notice \"$notice\"";
  if (!job.array.empty()) text += " --seed \"$SLURM_ARRAY_TASK_ID\"";
  text += "\n  " + shell_words(job.train) + ")\n";
  return text + loop_of(job);
}

}  // namespace hetpipe
